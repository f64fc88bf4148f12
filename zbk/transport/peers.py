"""The peers of a bookie's front, and what the front keeps for each of them.

Words: a *peer* is one connection that has said HELLO, named by its routing id. A request is *in
flight* from its admission to its answer, and counts against the peer's credit. A read is *held*
while there is no room for its answer. A peer is *backlogged* while answers wait in its outbox.

Pure. Every use is under the lock of the front (``zbk.transport.router``).
"""

from collections import OrderedDict, deque
from typing import Final

import msgspec

from zbk.errors import BusyError
from zbk.transport.answer_budget import AnswerBudget, PeerAnswers
from zbk.transport.frames import Frame
from zbk.transport.inbound import Inbound
from zbk.transport.inflow import Inflow
from zbk.wire.messages import VERSION_MIN

IN_FLIGHT_SIZE_MAX: Final = 192 * 1024 * 1024
IN_FLIGHT_COUNT_MAX: Final = 65_536
REQUEST_SIZE: Final = 1_024
"""Memory that a request takes besides its bytes, about; part of the total, not of a credit."""

HELD_COUNT_MAX: Final = 4_096
"""Reads of one peer that wait for room for their answers; the next one is answered with Busy."""

GONE_COUNT_MAX: Final = 1_024
"""Names of ended connections that are remembered: their messages are dropped undecoded."""


class FrontCounts(msgspec.Struct):
    """Counters of the front. Any thread may read them; the front writes them under its lock."""

    message_count: int = 0
    refused_count: int = 0
    dropped_answer_count: int = 0
    handshake_failed_count: int = 0  # with encryption on: ended before HELLO, and not refused
    peer_count: int = 0
    connection_count: int = 0  # TCP connections, with or without a HELLO
    ended_count: int = 0  # connections that the front ended because they said no HELLO


SHARE_PART: Final = 2
"""The connections of one key have at most this part (one half) of what all may have in flight."""


class KeyShare:
    """What all connections with one key have taken."""

    __slots__ = ("connection_count", "in_flight_size")

    def __init__(self) -> None:
        self.connection_count = 0
        self.in_flight_size = 0


class Peer:
    """One connection that has said HELLO."""

    __slots__ = (
        "address",
        "answers",
        "fd",
        "has_role",
        "held",
        "in_flight_count",
        "in_flight_size",
        "inflow",
        "key",
        "looked_size",
        "moved_ms",
        "outbox",
        "overhead_size",
        "seen_ms",
        "share",
        "version",
    )

    def __init__(self, fd: int, now_ms: int) -> None:
        self.fd = fd  # of its connection; stale after that has ended
        self.in_flight_size = 0
        self.in_flight_count = 0
        self.answers = PeerAnswers()
        self.inflow = Inflow()
        self.held: deque[Inbound] = deque()
        self.outbox: deque[tuple[int, list[Frame]]] = deque()  # since when it waits, and frames
        self.looked_size = 0  # bytes handed over at the last look at the kernel's counters
        self.overhead_size = 0  # bytes taken that ZeroMQ added: greetings and heartbeats
        self.moved_ms = now_ms  # when it last took bytes, or had taken everything
        self.seen_ms = now_ms
        self.has_role = False  # its principal has a role in the cluster
        self.key = ""  # the public key that it has proved to have; "" without encryption
        self.address = ""  # as host:port, when it said HELLO: the descriptor may be of others later
        self.share: KeyShare | None = None  # None: without a key, or with a role
        self.version = VERSION_MIN  # of the protocol, agreed on in its HELLO


class PeerTable:
    """All peers of one front.

    Invariant: ``in_flight_size`` and the budget cover all requests that are not answered yet, also
    those of peers that are gone.
    """

    def __init__(self, counts: FrontCounts, credit_size: int) -> None:
        self.counts = counts
        self._credit_size = credit_size
        self.by_name: OrderedDict[bytes, Peer] = OrderedDict()  # the longest silent one first
        self._shares: dict[str, KeyShare] = {}  # of keys with connections, or requests in flight
        self._names_by_fd: dict[int, bytes] = {}
        self.budget = AnswerBudget()
        self.in_flight_size = 0
        self.holding: dict[bytes, None] = {}  # peers with held reads, in the order of service
        self.backlogged: set[bytes] = set()
        self.gone_names: OrderedDict[bytes, None] = OrderedDict()

    def name_of(self, fd: int) -> bytes | None:
        """Return the name of the peer whose connection has a descriptor."""
        return self._names_by_fd.get(fd)

    def greet(self, name: bytes, fd: int, version: int, now_ms: int) -> Peer:
        """Return the peer that has said HELLO, perhaps not for the first time."""
        before = self._names_by_fd.get(fd)
        if before is not None and before != name:
            self.forget(before)  # its connection has ended: a connection has one name
        peer = self.by_name.get(name)
        if peer is None:
            peer = self.by_name[name] = Peer(fd, now_ms)
            self.counts.peer_count = len(self.by_name)
        elif peer.fd != fd and self._names_by_fd.get(peer.fd) == name:
            del self._names_by_fd[peer.fd]
        peer.fd, peer.seen_ms, peer.version = fd, now_ms, version
        self.by_name.move_to_end(name)
        self._names_by_fd[fd] = name
        return peer

    def connection_count(self, key: str) -> int:
        """Return the number of connections with a key."""
        share = self._shares.get(key)
        return 0 if share is None else share.connection_count

    def identify(self, name: bytes, key: str, *, has_role: bool, address: str = "") -> None:
        """Record the key of a peer, whether its principal has a role, and where it is."""
        peer = self.by_name[name]
        peer.has_role, peer.address = has_role, address
        if not key or peer.key == key:
            return
        peer.key = key
        if not has_role:
            peer.share = self._shares.setdefault(key, KeyShare())
            peer.share.connection_count += 1

    def _give_back(self, peer: Peer, size: int, connection_count: int = 0) -> None:
        """Return to the share of a peer's key what it has no longer."""
        share = peer.share
        if share is not None:
            share.in_flight_size -= size
            share.connection_count -= connection_count
            if not (share.connection_count or share.in_flight_size):
                self._shares.pop(peer.key, None)

    def forget(self, name: bytes) -> None:
        """Drop a peer, its held reads and the answers that wait for it."""
        peer = self.by_name.pop(name, None)
        if peer is None:
            return
        if self._names_by_fd.get(peer.fd) == name:
            del self._names_by_fd[peer.fd]
        held_size = sum(inbound.size + REQUEST_SIZE for inbound in peer.held)
        self.in_flight_size -= held_size
        self._give_back(peer, held_size, connection_count=1)
        self.backlogged.discard(name)
        self.holding.pop(name, None)
        self.budget.forget(peer.answers)
        for inbound in peer.held:
            if inbound.span is not None:
                inbound.span.unanswered()
        # requests refer to their peer: without this, megabytes wait for the garbage collector
        peer.held.clear()
        peer.outbox.clear()
        self.counts.peer_count = len(self.by_name)

    def forget_idle(self, now_ms: int, idle_ms: int) -> None:
        """Drop the peers that have been silent for ``idle_ms`` and wait for no answer."""
        while self.by_name:
            name, peer = next(iter(self.by_name.items()))
            if now_ms - peer.seen_ms < idle_ms:
                return
            if peer.in_flight_size or peer.outbox:
                peer.seen_ms = now_ms
                self.by_name.move_to_end(name)
                continue
            self.forget(name)

    def note_gone(self, name: bytes) -> None:
        """Remember the name of a connection that was ended: its messages may still arrive."""
        self.gone_names[name] = None
        if len(self.gone_names) > GONE_COUNT_MAX:
            self.gone_names.popitem(last=False)

    # -------------------------------------------------------------- requests

    def take_credit(self, peer: Peer, size: int, *, is_held: bool) -> None:
        """Count a request as in flight.

        Raises:
            BusyError: the peer, or all peers together, have as much in flight as they may.
        """
        if is_held and len(peer.held) >= HELD_COUNT_MAX:
            raise BusyError(f"{HELD_COUNT_MAX} reads of this connection wait already")
        if peer.in_flight_count >= IN_FLIGHT_COUNT_MAX:
            raise BusyError(f"over {IN_FLIGHT_COUNT_MAX} requests in flight a connection")
        if peer.in_flight_size + size > self._credit_size:
            raise BusyError(f"over the credit of {self._credit_size} bytes in flight a connection")
        share = peer.share
        share_size_max = IN_FLIGHT_SIZE_MAX // SHARE_PART
        if share is not None and share.in_flight_size + size + REQUEST_SIZE > share_size_max:
            raise BusyError(f"over {share_size_max} bytes in flight with one key")
        if self.in_flight_size + size + REQUEST_SIZE > IN_FLIGHT_SIZE_MAX:
            raise BusyError(f"over {IN_FLIGHT_SIZE_MAX} bytes in flight at this bookie")
        peer.in_flight_size += size
        peer.in_flight_count += 1
        self.in_flight_size += size + REQUEST_SIZE
        if share is not None:
            share.in_flight_size += size + REQUEST_SIZE

    def expect_answer(self, inbound: Inbound, peer: Peer) -> bool:
        """Set room aside for the answer to a read. Without room, hold the read; return false."""
        if peer.held or not self.budget.has_room(peer.answers, inbound.expected_size):
            peer.held.append(inbound)
            self.holding[inbound.peer] = None
            return False
        self.budget.expect(peer.answers, inbound.expected_size)
        return True

    def take_held(self) -> list[Inbound]:
        """Return held reads whose answers have room now, of each peer in turn."""
        ready: list[Inbound] = []
        names = deque(self.holding)
        while names:
            name = names.popleft()
            peer = self.by_name[name]
            if not self.budget.has_room(peer.answers, peer.held[0].expected_size):
                continue
            inbound = peer.held.popleft()
            self.budget.expect(peer.answers, inbound.expected_size)
            ready.append(inbound)
            del self.holding[name]
            if peer.held:
                self.holding[name] = None  # it was served: the others are next
                names.append(name)
        return ready

    def settle(self, inbound: Inbound) -> Peer | None:
        """Give back what an answered request took; return its peer unless that is gone."""
        self.in_flight_size -= inbound.size + REQUEST_SIZE
        if isinstance(inbound.life, Peer):
            self._give_back(inbound.life, inbound.size + REQUEST_SIZE)
        peer = self.by_name.get(inbound.peer)
        if peer is not None and inbound.life is not peer:
            peer = None  # another connection has the name now
        if inbound.expected_size:
            self.budget.arrived(None if peer is None else peer.answers, inbound.expected_size)
        if peer is None:
            self.counts.dropped_answer_count += 1
            return None
        peer.in_flight_size -= inbound.size
        peer.in_flight_count -= 1
        return peer
