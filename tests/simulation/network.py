"""The network between clients and bookies, and what befalls the messages on it.

A *link* is what one client has to one bookie: not connected, connecting, or up, with everything
that is outstanding on it. Within one life of a link messages keep their order; between links they
do not. When a link is lost, its answers are lost with it, while its requests may still arrive, and
be carried out, whenever it suits them. Modelled thinly after the router: who has not said HELLO to
this life of the bookie, or means an older incarnation, is refused. The links themselves are in
``tests.simulation.links``.

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

from collections.abc import Sequence
from typing import Any, Protocol

from tests.simulation.faults import Faults
from tests.simulation.kernel import MS, SECOND, Kernel, Node
from tests.simulation.principals import Identified, Rights
from zbk.transport.bundles import Part
from zbk.transport.inbound import Inbound
from zbk.wire.messages import Message

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
        """Receive a request from the network."""
        ...


class AnyLink(Protocol):
    """A link, as the network knows it."""

    client: Node
    bookie_id: str
    name: str
    life: int
    is_up: bool
    is_lossy: bool
    has_slow_requests: bool
    has_slow_answers: bool
    requests_until_us: int  # what is sent now arrives behind it
    answers_until_us: int

    @property
    def host(self) -> Host:
        """Who listens at the bookie's address."""
        ...

    def lose_life(self, life: int, reason: str) -> None:
        """Lose the link, unless that has happened."""
        ...

    def answer_with(self, source: Node, life: int, part: Part) -> None:
        """Send a bookie's answer back."""
        ...

    def on_answers(self, life: int, parts: Sequence[Part]) -> None:
        """Take the answers in a message, if this life of the link still waits for them."""
        ...


class Network:
    """All links, and the cuts between nodes."""

    def __init__(self, kernel: Kernel, faults: Faults) -> None:
        self.kernel = kernel
        self.faults = faults
        self.hosts: dict[str, Host] = {}  # by address
        self.addresses: dict[str, str] = {}  # by bookie id: as registered
        self.links: list[AnyLink] = []
        self.is_checking_incarnation = True
        self.is_checking_identity = True
        self.is_checking_hello = True
        self.has_unique_ids = True  # false: with each life of a link they begin anew
        self.credit_size = SMALL_CREDIT_SIZE if faults.has_small_credit else 1 << 30
        self.rights: Rights | None = None  # None: bookies enforce none
        self._cuts: dict[tuple[str, str], int] = {}
        self._links_by_peer: dict[bytes, tuple[AnyLink, int]] = {}
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

    def register_peer(self, link: AnyLink) -> bytes:
        """Return the name under which a bookie knows this life of a link."""
        peer = f"{len(self._links_by_peer)}".encode()
        self._links_by_peer[peer] = (link, link.life)
        return peer

    def answer(
        self, source: Node, inbound: Inbound, answer: Message, frames: tuple[Any, ...]
    ) -> None:
        """Carry an answer from a bookie to the one that asked."""
        link, life = self._links_by_peer[inbound.peer]
        link.answer_with(source, life, (answer, frames))

    def carry_answers(self, source: Node, link: AnyLink, life: int, parts: Sequence[Part]) -> None:
        """Carry a message with an answer, or with some."""
        if self._is_lost(link):
            answers = ", ".join(str(answer) for answer, _frames in parts)
            self.kernel.trace(source.name, f"-> {link.client.name} answer lost: {answers}")
            return
        at_us = self.kernel.now_us + self.delay_us() + self.blocked_us(source.name, link.name)
        at_us += self.faults.slow_link_us * link.has_slow_answers
        link.answers_until_us = at_us = max(at_us, link.answers_until_us)
        self.kernel.after(at_us - self.kernel.now_us, link.on_answers, life, parts)

    def _is_lost(self, link: AnyLink) -> bool:
        share = max(self.faults.drop_share, self.faults.lossy_link_loss * link.is_lossy)
        return self.kernel.tape.chance(share)

    def carry_requests(self, link: AnyLink, parts: Sequence[Inbound]) -> None:
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
