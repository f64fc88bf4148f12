"""Links between clients and bookies, as ``zbk.transport`` makes them.

A link is not connected, connecting, or up, with everything that is outstanding on it. Requests that
go over the bookie's credit wait here. ``tests.simulation.network`` carries the messages.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.simulation.kernel import MS, SECOND, Node
from tests.simulation.network import Host, Network
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
from zbk.wire.messages import Refused, Request

RETRY_US = 50 * MS
RETRY_US_MAX = SECOND
REQUEST_SIZE = 512


class Outstanding(msgspec.Struct, frozen=True):
    """A request whose answer somebody waits for."""

    key: object
    deliver: Callable[[News], None]
    name: str
    timeout_ms: int
    size: int  # bytes of the request, which count against the bookie's credit


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
