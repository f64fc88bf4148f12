"""Requests that wait for the storage actor: each connection gets a share of every turn.

A ledger that is written as fast as possible has megabytes on their way. In one queue for all, a
small request of another client would wait until these are stored. Here each connection has its own
queue, and a turn takes a slice of each of them (deficit round robin; Shreedhar and Varghese, 1995),
up to ``TURN_SIZE`` bytes.

Within a connection, small requests overtake large ones of other ledgers, as in the client
(``zbk.transport.request_queue``). All requests of a ledger stay in order: while a large one waits,
later ones join its lane, whatever their size. Each lane gets its own slice, so neither stops the
other.

An fsync takes as long as its bytes. While small requests come beside large ones, at most
``PACE_SIZE`` bytes of requests that wait for an fsync are in the journals, and more large ones are
*held* until a sync has ended.

    put(batch) -> [connection: small lane | large lane] ... -> take(): a slice of each lane, in turn

The front's thread puts, the storage actor takes; the lock is held for list operations only. What
waits here is bounded by the credit of each connection (``zbk.transport.peers``).
"""

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from zbk.transport.inbound import Inbound

SMALL_SIZE_MAX: Final = 16 * 1024
"""Bytes of a request that may overtake larger ones of other ledgers."""

SLICE_SIZE: Final = 64 * 1024
"""Bytes that a lane gets in one round. A larger request waits for several rounds."""

TURN_SIZE: Final = 256 * 1024
"""Bytes of a turn, by which a request is delayed at most once it is its connection's turn."""


PACE_SIZE: Final = 512 * 1024
"""Bytes in the journals, waiting for an fsync, beside which no large request is taken while small
ones come."""

HURRY_US: Final = 250_000
"""How long after such a request the next one is expected."""


class Taken(NamedTuple):
    """The requests of one turn."""

    batch: list[Inbound]
    received_us: int  # when the first of them was received
    is_more: bool  # other requests can be taken at once
    is_held: bool  # others can be taken after a sync


class _Lane:
    """Requests that are served in order, and the bytes that may be taken without a new slice."""

    __slots__ = ("credit_size", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[Inbound, int]] = deque()
        self.credit_size = 0

    def take_slice(self, taken: list[tuple[Inbound, int]]) -> int:
        """Move a slice to ``taken``; return its size in bytes."""
        waiting = self.waiting
        if not waiting:
            return 0
        before_size = credit_size = self.credit_size + SLICE_SIZE
        while waiting and waiting[0][0].size <= credit_size:
            taken.append(waiting.popleft())
            credit_size -= taken[-1][0].size
        self.credit_size = credit_size if waiting else 0
        return before_size - credit_size


class _Connection:
    """The requests of one connection."""

    __slots__ = ("_large_counts", "large", "small")

    def __init__(self) -> None:
        self.small = _Lane()
        self.large = _Lane()
        self._large_counts: dict[int | None, int] = {}  # by ledger; None: of no ledger

    def put(self, inbound: Inbound, received_us: int) -> bool:
        """Add a request to its lane; return whether that is the large one."""
        counts = self._large_counts
        if inbound.size > SMALL_SIZE_MAX or counts:
            ledger_id = getattr(inbound.request, "ledger_id", None)
            if inbound.size > SMALL_SIZE_MAX or ledger_id in counts:
                counts[ledger_id] = counts.get(ledger_id, 0) + 1
                self.large.waiting.append((inbound, received_us))
                return True
        self.small.waiting.append((inbound, received_us))
        return False

    def take_large(self, taken: list[tuple[Inbound, int]]) -> int:
        """Move a slice of the large lane to ``taken``; return its size in bytes."""
        before_count = len(taken)
        size = self.large.take_slice(taken)
        counts = self._large_counts
        for inbound, _received_us in taken[before_count:]:
            ledger_id = getattr(inbound.request, "ledger_id", None)
            counts[ledger_id] -= 1
            if not counts[ledger_id]:
                del counts[ledger_id]
        return size

    @property
    def is_empty(self) -> bool:
        """True when nothing waits."""
        return not (self.small.waiting or self.large.waiting)


class FairQueue:
    """The waiting requests of all connections. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[bytes, _Connection] = {}
        self._round: deque[bytes] = deque()  # the next to be served first
        self._is_known = False  # the storage actor has a message, or makes one
        self._large_us = self._hurried_until_us = 0

    @property
    def is_empty(self) -> bool:
        """True when nothing waits. The thread that puts."""
        return not self._connections

    def put(self, batch: Iterable[Inbound], received_us: int) -> bool:
        """Add requests, in order; return whether the storage actor must be told."""
        connections = self._connections
        with self._lock:
            for inbound in batch:
                connection = connections.get(inbound.peer)
                if connection is None:
                    connection = connections[inbound.peer] = _Connection()
                    self._round.append(inbound.peer)
                if connection.put(inbound, received_us):
                    self._large_us = received_us
                elif received_us < self._large_us + HURRY_US:
                    self._hurried_until_us = received_us + HURRY_US
            was_known, self._is_known = self._is_known, True
        return not was_known

    def take(self, unsynced_size: int, now_us: int) -> Taken:
        """Return the requests of the next turn: a slice of each lane, until the turn is full.

        ``unsynced_size``: bytes in the journals of requests that wait for an fsync.
        """
        taken: list[tuple[Inbound, int]] = []
        size = 0
        held_count = 0  # connections in a row that have only large requests, which are held
        with self._lock:
            is_hurried = now_us < self._hurried_until_us
            turns = self._round
            while turns and size < TURN_SIZE and held_count < len(turns):
                name = turns.popleft()
                connection = self._connections[name]
                small_size = connection.small.take_slice(taken)
                size += small_size
                is_held = is_hurried and unsynced_size + size >= PACE_SIZE
                if not is_held:
                    size += connection.take_large(taken)
                if connection.is_empty:
                    del self._connections[name]
                else:
                    turns.append(name)
                    has_rest = connection.small.waiting or not is_held
                    held_count = 0 if has_rest else held_count + 1
            is_held = bool(turns) and held_count == len(turns)
            self._is_known = is_more = bool(turns) and not is_held
        received_us = min((one_us for _inbound, one_us in taken), default=0)
        return Taken([inbound for inbound, _received_us in taken], received_us, is_more, is_held)
