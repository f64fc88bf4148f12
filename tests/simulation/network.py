"""Connections between clients and bookies, as ``zbk.transport`` makes them, and what befalls them.

A *link* is what one client has to one bookie: not connected, connecting, or up, with everything
that is outstanding on it. Within one life of a link messages keep their order; between links they
do not. When a link is lost, its answers are lost with it, while its requests may still arrive, and
be carried out, whenever it suits them. Modelled thinly after the router: who has not said HELLO to
this life of the bookie, or means an older incarnation, is refused.

    slow          a message, and all behind it on this link, comes later; or all of them do
    drop          a message is gone, on some links more often; the request times out
    duplicate     a request is carried out twice in a row
    replay        a request comes once more, seconds later, over whatever there is then
    cut           nothing passes from one node to another; what was sent waits, or times out
    reset         the link is lost at once

In one run of four a bookie gives little *credit*, bytes in flight on one link. Clients keep to it:
what goes over it waits, and its time-out begins when it is sent. A client that has given up waiting
for answers may go over it, and so may duplicates; the bookie refuses that as busy.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from tests.simulation.faults import Faults
from tests.simulation.kernel import MS, SECOND, Kernel, Node
from tests.simulation.principals import Identified, Rights
from zbk.errors import (
    BookieUnavailableError,
    HelloRequiredError,
    RequestTimeoutError,
    WrongBookieError,
    ZbkError,
    from_wire,
)
from zbk.transport.bundles import Part
from zbk.transport.events import BookieDown, BookieUp, News, Reply
from zbk.transport.inbound import Inbound
from zbk.wire.messages import Message, Refused, Request

RETRY_US = 50 * MS
RETRY_US_MAX = SECOND
REQUEST_SIZE = 512
SMALL_CREDIT_SIZE = 2_048

HEARTBEAT_US = SECOND
"""After so long without a sign of life a link is lost."""


class Host(Protocol):
    """A bookie, as the network knows it."""

    node: Node
    bookie_id: str

    def greet(self, bookie_id: str, peer: bytes) -> int:
        """Answer a HELLO meant for this bookie with the incarnation; the peer is known then.

        Raises:
            ZbkError: nobody listens here, or it is another bookie.
        """
        ...

    def take(self, inbound: Inbound) -> None:
        """Take a request from the network."""
        ...


class Outstanding(msgspec.Struct, frozen=True):
    """A request whose answer somebody waits for."""

    key: object
    deliver: Callable[[News], None]
    name: str
    timeout_ms: int
    size: int  # bytes of the request, which count against the bookie's credit


class Network:
    """All links, and the cuts between nodes."""

    def __init__(self, kernel: Kernel, faults: Faults) -> None:
        self.kernel = kernel
        self.faults = faults
        self.hosts: dict[str, Host] = {}  # by address
        self.addresses: dict[str, str] = {}  # by bookie id: as registered
        self.links: list[Link] = []
        self.is_checking_incarnation = True
        self.is_checking_identity = True
        self.is_checking_hello = True
        self.has_unique_ids = True  # false: with each life of a link they begin anew
        self.credit_size = SMALL_CREDIT_SIZE if faults.has_small_credit else 1 << 30
        self.rights: Rights | None = None  # None: bookies enforce none
        self._cuts: dict[tuple[str, str], int] = {}
        self._links_by_peer: dict[bytes, tuple[Link, int]] = {}
        self._request_id = 0

    def identify(self, client: Node) -> Identified | None:
        """Return what the connections of a client prove."""
        return None if self.rights is None else self.rights.identify(client.name)

    # ------------------------------------------------------------------ faults

    def cut(self, source: str, target: str, duration_us: int) -> None:
        """Block the way from one node to another for a while."""
        self._cuts[(source, target)] = self.kernel.now_us + duration_us

    def heal(self) -> None:
        """Unblock all ways."""
        self._cuts.clear()

    def blocked_us(self, source: str, target: str) -> int:
        """Return how long nothing will pass yet."""
        until_us = self._cuts.get((source, target), 0) if self._cuts else 0
        return max(0, until_us - self.kernel.now_us)

    def delay_us(self) -> int:
        """Draw how long one message takes."""
        faults, tape = self.faults, self.kernel.tape
        delay_us = 60 + 40 * tape.draw(6)
        if tape.chance(faults.slow_share):
            delay_us += tape.draw(16) * faults.slow_us_max // 15
        return delay_us

    def drop_links_to(self, host: Host, *, is_silent: bool) -> None:
        """Notify clients that a bookie is gone: at once, or when its heartbeats are missed."""
        for link in self.links:
            if link.host is host and link.is_up:
                delay_us = HEARTBEAT_US if is_silent else self.delay_us()
                self.kernel.after(delay_us, link.lose_life, link.life, "was lost")

    def listening(self) -> frozenset[str]:
        """Return the ids of the bookies that run."""
        return frozenset(host.bookie_id for host in self.hosts.values() if host.node.is_alive)

    # ------------------------------------------------------------------ messages

    def next_request_id(self) -> int:
        """Return an id that no other request has."""
        self._request_id += 1
        return self._request_id

    def register_peer(self, link: "Link") -> bytes:
        """Return the name under which a bookie knows this life of a link."""
        peer = f"{len(self._links_by_peer)}".encode()
        self._links_by_peer[peer] = (link, link.life)
        return peer

    def answer(
        self, source: Node, inbound: Inbound, answer: Message, frames: tuple[Any, ...]
    ) -> None:
        """Carry an answer from a bookie to whoever asked."""
        link, life = self._links_by_peer[inbound.peer]
        link.answer_with(source, life, (answer, frames))

    def carry_answers(self, source: Node, link: "Link", life: int, parts: Sequence[Part]) -> None:
        """Carry a message with an answer, or with some."""
        if self._is_lost(link):
            answers = ", ".join(str(answer) for answer, _frames in parts)
            self.kernel.trace(source.name, f"-> {link.client.name} answer lost: {answers}")
            return
        at_us = self.kernel.now_us + self.delay_us() + self.blocked_us(source.name, link.name)
        at_us += self.faults.slow_link_us * link.has_slow_answers
        link.answers_until_us = at_us = max(at_us, link.answers_until_us)
        self.kernel.after(at_us - self.kernel.now_us, link.on_answers, life, parts)

    def _is_lost(self, link: "Link") -> bool:
        share = max(self.faults.drop_share, self.faults.lossy_link_loss * link.is_lossy)
        return self.kernel.tape.chance(share)

    def carry_requests(self, link: "Link", parts: Sequence[Inbound]) -> None:
        """Carry a message with a request, or with some, from a client to a bookie."""
        faults, tape = self.faults, self.kernel.tape
        if self._is_lost(link):
            requests = ", ".join(str(inbound.request) for inbound in parts)
            link.client.trace(f"-> {link.bookie_id} request lost: {requests}")
            return
        at_us = self.kernel.now_us + self.delay_us()
        at_us += self.blocked_us(link.name, link.host.node.name)
        at_us += faults.slow_link_us * link.has_slow_requests
        link.requests_until_us = at_us = max(at_us, link.requests_until_us)
        wait_us = at_us - self.kernel.now_us
        self.kernel.after(wait_us, self._arrive, link.host, parts)
        if tape.chance(faults.duplicate_share):
            self.kernel.sometimes["network: a request came twice"] += 1
            self.kernel.after(wait_us + tape.draw(4) * MS, self._arrive, link.host, parts)
        if tape.chance(faults.replay_share):
            self.kernel.sometimes["network: an old request came again"] += 1
            late_us = wait_us + (1 + tape.draw(30)) * 100 * MS
            self.kernel.after(late_us, self._arrive, link.host, parts)

    def _arrive(self, host: Host, parts: Sequence[Inbound]) -> None:
        if host.node.is_alive:
            host.node.after(0, _take_all, host, parts)


def _take_all(host: Host, parts: Sequence[Inbound]) -> None:
    for inbound in parts:
        host.take(inbound)


class Link:
    """What one client has to one bookie."""

    def __init__(self, network: Network, client: Node, bookie_id: str, timeout_ms: int) -> None:
        self.network = network
        self.client = client
        self.bookie_id = bookie_id
        self.name = client.name
        self.life = 0
        self.is_up = False
        self.requests_until_us = 0
        self.answers_until_us = 0
        self._is_connecting = False
        self._timeout_ms = timeout_ms
        self._incarnation = 0
        self._peer = b""
        self._short_id = 0
        self._subscribers: list[Callable[[News], None]] = []
        self._outstanding: dict[int, Outstanding] = {}
        self._in_flight_size = 0
        self._queue: deque[tuple[Request, tuple[bytes, ...], Outstanding]] = deque()  # for credit
        self._waiting: list[tuple[Request, tuple[bytes, ...], Outstanding]] = []
        self._retry_us = RETRY_US
        self._lost_at_us = -SECOND
        self._error: ZbkError = BookieUnavailableError(bookie_id, "not connected yet")
        tape, share = network.kernel.tape, network.faults.slow_link_share
        self.has_slow_requests = tape.chance(share)
        self.has_slow_answers = tape.chance(share)
        self.is_lossy = tape.chance(network.faults.lossy_link_share)
        network.links.append(self)

    @property
    def host(self) -> Host:
        """Who listens at the bookie's address."""
        return self.network.hosts[self.network.addresses[self.bookie_id]]

    # ------------------------------------------------------------------ what clients want

    def subscribe(self, deliver: Callable[[News], None]) -> None:
        """Report when the link comes and goes, beginning with now."""
        self._subscribers.append(deliver)
        if self.is_up:
            self.client.after(0, deliver, BookieUp(self.bookie_id, self._incarnation, 1 << 20))
        else:
            self._connect()

    def unsubscribe(self, deliver: Callable[[News], None]) -> None:
        """Report no more."""
        if deliver in self._subscribers:
            self._subscribers.remove(deliver)

    def request(
        self,
        request: Request,
        frames: tuple[bytes, ...],
        outstanding: Outstanding,
    ) -> None:
        """Send a request; its outcome goes to ``outstanding.deliver``, for sure."""
        if not self.is_up:
            if self.network.kernel.now_us < self._lost_at_us + RETRY_US:
                self._tell(outstanding, self._error)
                return
            self._waiting.append((request, frames, outstanding))
            self._connect()
            return
        self._queue.append((request, frames, outstanding))
        self._pump()

    def _pump(self) -> None:
        """Send what waits, as far as the credit goes; one request always goes."""
        while self._queue and self.is_up:
            size = self._queue[0][2].size
            if self._in_flight_size and self._in_flight_size + size > self.network.credit_size:
                self.network.kernel.sometimes["network: a request waits for credit"] += 1
                return
            self._send(*self._queue.popleft())

    def _send(self, request: Request, frames: tuple[bytes, ...], outstanding: Outstanding) -> None:
        request_id = self.network.next_request_id()
        if not self.network.has_unique_ids:
            self._short_id += 1
            request_id = self._short_id
        request = msgspec.structs.replace(
            request, request_id=request_id, incarnation=self._incarnation
        )
        self._outstanding[request_id] = outstanding
        self._in_flight_size += outstanding.size
        self.client.after(outstanding.timeout_ms * MS, self._time_out, request_id)
        life = self.network.identify(self.client)
        self._send_part(Inbound(self._peer, request, frames, outstanding.size, life=life))

    def _send_part(self, inbound: Inbound) -> None:
        """Send a request in a message of its own."""
        self.network.carry_requests(self, [inbound])

    def answer_with(self, source: Node, life: int, part: Part) -> None:
        """Send a bookie's answer back, in a message of its own."""
        self.network.carry_answers(source, self, life, [part])

    def _answered(self, request_id: int) -> Outstanding | None:
        """Remove and return an outstanding request; ``None`` if it timed out before."""
        outstanding = self._outstanding.pop(request_id, None)
        if outstanding is not None:
            self._in_flight_size -= outstanding.size
        return outstanding

    def reset(self, error: ZbkError) -> None:
        """End this life of the link."""
        if self.is_up:
            self._lose(error)

    # ------------------------------------------------------------------ life

    def _connect(self) -> None:
        if self.is_up or self._is_connecting:
            return
        self._is_connecting = True
        network, host = self.network, self.host
        there, back = (self.name, host.node.name), (host.node.name, self.name)
        blocked_us = network.blocked_us(*there) + network.blocked_us(*back)
        delay_us = network.delay_us() + network.delay_us() + blocked_us
        limit_us = self._timeout_ms * MS
        self.client.after(min(delay_us, limit_us), self._connected, delay_us < limit_us)

    def _connected(self, is_in_time: bool) -> None:
        self._is_connecting = False
        host = self.host
        error: ZbkError
        try:
            if not is_in_time or host.node.paused_until_us > self.network.kernel.now_us:
                raise BookieUnavailableError(self.bookie_id, "no answer to HELLO")
            peer = self.network.register_peer(self)
            self._incarnation = host.greet(self.bookie_id, peer)
        except ZbkError as problem:
            error = problem
            self._lose(error)
            return
        self.is_up = True
        self._retry_us = RETRY_US
        self.requests_until_us = self.answers_until_us = 0
        self._short_id = 0
        self._peer = peer
        for deliver in self._subscribers:
            deliver(BookieUp(self.bookie_id, self._incarnation, 1 << 20))
        waiting, self._waiting = self._waiting, []
        for request, frames, outstanding in waiting:
            self.request(request, frames, outstanding)

    def lose_life(self, life: int, reason: str) -> None:
        """Lose the link, unless that has happened."""
        if life == self.life and self.is_up and self.client.is_alive:
            self._lose(BookieUnavailableError(self.bookie_id, reason))

    def _lose(self, error: ZbkError) -> None:
        self.is_up = False
        self.life += 1
        self._error = error
        self._lost_at_us = self.network.kernel.now_us
        waiting = [*self._queue, *self._waiting]
        failed = [*self._outstanding.values(), *(one for _, _, one in waiting)]
        self._outstanding.clear()
        self._in_flight_size = 0
        self._queue.clear()
        self._waiting.clear()
        for outstanding in failed:
            self._tell(outstanding, error)
        for deliver in list(self._subscribers):
            self.client.after(0, deliver, BookieDown(self.bookie_id, error))
        if self._subscribers:
            self.client.after(self._retry_us, self._retry)
        self._retry_us = min(2 * self._retry_us, RETRY_US_MAX)

    def _retry(self) -> None:
        if self._subscribers:
            self._connect()

    # ------------------------------------------------------------------ answers

    def on_answers(self, life: int, parts: Sequence[Part]) -> None:
        """Take the answers in a message, if this life of the link still waits for them."""
        self.client.after(0, self._take_all, life, parts)

    def _take_all(self, life: int, parts: Sequence[Part]) -> None:
        for answer, frames in parts:
            if life == self.life or not self.network.has_unique_ids:
                self._take(answer, frames)

    def _take(self, answer: Any, frames: Sequence[Any]) -> None:  # noqa: ANN401
        outstanding = self._answered(answer.request_id)
        if outstanding is None:
            return  # it timed out, or was answered twice
        self._pump()
        if not isinstance(answer, Refused):
            whole = tuple(bytes(frame) for frame in frames)
            outstanding.deliver(Reply(self.bookie_id, outstanding.key, answer, whole))
            return
        error = from_wire(answer.code, tuple(answer.fields))
        outstanding.deliver(Reply(self.bookie_id, outstanding.key, error))
        if isinstance(error, WrongBookieError | HelloRequiredError):
            self._lose(error)

    def _time_out(self, request_id: int) -> None:
        outstanding = self._answered(request_id)
        if outstanding is not None:
            self._pump()
            what = f"{outstanding.name} to bookie {self.bookie_id}"
            error = RequestTimeoutError(what, outstanding.timeout_ms / 1000)
            outstanding.deliver(Reply(self.bookie_id, outstanding.key, error))

    def _tell(self, outstanding: Outstanding, error: ZbkError) -> None:
        self.client.after(0, outstanding.deliver, Reply(self.bookie_id, outstanding.key, error))


class ClientPool:
    """All links of one client: what ``BookiePool`` is to a real one."""

    def __init__(self, network: Network, node: Node, timeout_ms: int) -> None:
        self._network = network
        self._node = node
        self._timeout_ms = timeout_ms
        self.links: dict[str, Link] = {}

    def link(self, bookie_id: str) -> Link:
        """Return the link to a bookie."""
        link = self.links.get(bookie_id)
        if link is None:
            link = self._make_link(bookie_id)
            self.links[bookie_id] = link
        return link

    def _make_link(self, bookie_id: str) -> Link:
        return Link(self._network, self._node, bookie_id, self._timeout_ms)

    def request(
        self,
        bookie_id: str,
        request: Request,
        frames: tuple[bytes, ...],
        key: object,
        deliver: Callable[[News], None],
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request to a bookie."""
        name = type(request).__name__
        size = REQUEST_SIZE + sum(map(len, frames))
        outstanding = Outstanding(key, deliver, name, timeout_ms or self._timeout_ms, size)
        self.link(bookie_id).request(request, frames, outstanding)

    def close(self) -> None:
        """Forget all links: their client is gone."""
        for link in self.links.values():
            link.is_up = False
            link.life += 1
            self._network.links.remove(link)
        self.links = {}
