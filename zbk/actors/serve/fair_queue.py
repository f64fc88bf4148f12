"""Requests that wait for the storage actor: each connection gets a share of every turn.

A ledger that is written as fast as possible has megabytes on their way. In one queue for all, a
small request of another client would wait until these are stored. Here each connection has its own
queue, and a turn takes a slice of each of them (deficit round robin; Shreedhar and Varghese, 1995),
up to ``TURN_SIZE`` bytes. Questions about ledgers count as many bytes as are set aside for their
answers: a turn has a few of them.

Within a connection, small requests overtake large ones of other ledgers, as in the client
(``zbk.transport.request_queue``). All requests of a ledger stay in order: while a large one waits,
later ones join its lane, whatever their size. Each lane gets its own slice, so neither stops the
other. Where each request counts (``identity_rates``), the lanes take turns, one request each.

An fsync takes as long as its bytes. While small requests come beside large ones, at most
``PACE_SIZE`` bytes of requests that wait for an fsync are in the journals, and more large ones are
*held* until a sync has ended.

Fences have a lane, too, because they have a rate (``identity_rates``), which also counts where a
fence is large, or follows a large request of its ledger, and so is in the large lane. A connection
whose identity is over a rate is *throttled*: its requests are taken later.

    put(batch) -> [connection: small lane | large lane | fences] ... -> take(): a slice of each lane

The front's thread puts, the storage actor takes; the lock is held for list operations only. What
waits here is bounded by the credit of each connection (``zbk.transport.peers``).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from zbk.actors.serve.identity_rates import IdentityRates, RateLimits, RateTable, is_fence
from zbk.transport.inbound import Inbound, turn_size

SMALL_SIZE_MAX: Final = 16 * 1024
"""Bytes of a request that may overtake larger ones of other ledgers."""

SLICE_SIZE: Final = 64 * 1024
"""Bytes that a lane gets in one round. A larger request waits for several rounds."""

TURN_SIZE: Final = 256 * 1024
"""Bytes of a turn, by which a request is delayed at most once it is its connection's turn."""


PACE_SIZE: Final = 512 * 1024
"""Bytes in the journals, waiting for an fsync, beside which no large request is taken while small
ones come."""

COUNT_MAX: Final = 65_536
"""Requests of a slice, if each need not be counted."""

LANES: Final = ("small", "large", "fences")

NO_LIMITS: Final = RateLimits()

HURRY_US: Final = 250_000
"""How long after such a request the next one is expected."""


class Taken(NamedTuple):
    """The requests of one turn."""

    batch: list[Inbound]
    received_us: int  # when the first of them was received
    is_more: bool  # other requests can be taken at once
    is_held: bool  # others can be taken after a sync
    is_throttled: bool  # others can be taken after some time


class _Lane:
    """Requests that are served in order, and the bytes that may be taken without a new slice."""

    __slots__ = ("credit_size", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[Inbound, int]] = deque()
        self.credit_size = 0

    def take_slice(
        self,
        taken: list[tuple[Inbound, int]],
        count_max: int,
        admits: Callable[[Inbound], bool] | None = None,
    ) -> int:
        """Move a slice to ``taken``; return its size in bytes. ``admits`` may end it sooner."""
        waiting = self.waiting
        if not waiting:
            return 0
        before_size = credit_size = self.credit_size + SLICE_SIZE
        end_count = len(taken) + count_max
        while waiting and len(taken) < end_count:
            size = turn_size(waiting[0][0])
            if size > credit_size or not (admits is None or admits(waiting[0][0])):
                break
            taken.append(waiting.popleft())
            credit_size -= size
        self.credit_size = credit_size if waiting else 0
        return before_size - credit_size


class _Connection:
    """The requests of one connection."""

    __slots__ = ("_fences", "_large", "_large_counts", "_small", "_turns", "rates")

    def __init__(self, rates: IdentityRates) -> None:
        self.rates = rates
        self._small = _Lane()
        self._large = _Lane()
        self._fences: deque[tuple[Inbound, int]] = deque()
        self._large_counts: dict[int | None, int] = {}  # by ledger; None: of no ledger
        self._turns: tuple[str, ...] = LANES  # where each request counts; the next lane first

    def put(self, inbound: Inbound, received_us: int) -> bool:
        """Add a request to its lane; return whether that is the large one."""
        counts = self._large_counts
        if inbound.size > SMALL_SIZE_MAX or counts:
            ledger_id = getattr(inbound.request, "ledger_id", None)
            if inbound.size > SMALL_SIZE_MAX or ledger_id in counts:
                counts[ledger_id] = counts.get(ledger_id, 0) + 1
                self._large.waiting.append((inbound, received_us))
                return True
        lane = self._fences if is_fence(inbound) else self._small.waiting
        lane.append((inbound, received_us))
        return False

    def take(self, taken: list[tuple[Inbound, int]], now_ms: int, *, is_held: bool) -> int:
        """Move a slice of each lane to ``taken``; return their size in bytes.

        ``is_held``: nothing of the large lane.
        """
        rates = self.rates
        if rates.has_all:
            return 0 if now_ms < rates.free_ms else self._take_one(taken, now_ms, is_held=is_held)
        size = self._small.take_slice(taken, COUNT_MAX)
        if not is_held:
            size += self._take_large(taken, COUNT_MAX, now_ms)
        while self._take_fence(taken, now_ms):
            size += taken[-1][0].size
        return size

    def _take_one(self, taken: list[tuple[Inbound, int]], now_ms: int, *, is_held: bool) -> int:
        """Move one request to ``taken``, if one may be; return its size in bytes.

        The lanes take turns. A client at its rate always has small requests that wait, so that
        they would stop the other lanes for good.
        """
        before_count = len(taken)
        for lane in self._turns:
            size = 0
            if lane == "small":
                size = self._small.take_slice(taken, 1)
            elif lane == "fences":
                size = taken[-1][0].size if self._take_fence(taken, now_ms) else 0
            elif not is_held:
                size = self._take_large(taken, 1, now_ms)
            if len(taken) > before_count:
                self._turns = (*(one for one in self._turns if one != lane), lane)
                if lane == "small":  # the others have counted it
                    self.rates.spend(taken[-1][0], now_ms)
                return size
        return 0

    def _take_fence(self, taken: list[tuple[Inbound, int]], now_ms: int) -> bool:
        """Move a fence to ``taken`` if its rates allow one; return whether they do."""
        if not (self._fences and self._admits(self._fences[0][0], now_ms)):
            return False
        taken.append(self._fences.popleft())
        return True

    def _admits(self, inbound: Inbound, now_ms: int) -> bool:
        """Count a request that is taken now; false: it is a fence over its rates."""
        rates = self.rates
        if is_fence(inbound) and now_ms < max(rates.fence_ms, rates.free_ms):
            return False
        rates.spend(inbound, now_ms)
        return True

    def _take_large(self, taken: list[tuple[Inbound, int]], count_max: int, now_ms: int) -> int:
        """Move a slice of the large lane to ``taken``; return its size in bytes.

        A fence in it that is over its rate stops what follows, and gathers no slices meanwhile.
        """
        if self._is_fence_next() and now_ms < self.rates.fence_ms:
            return 0
        before_count = len(taken)
        admits = partial(self._admits, now_ms=now_ms)
        size = self._large.take_slice(taken, count_max, admits)
        counts = self._large_counts
        for inbound, _received_us in taken[before_count:]:
            ledger_id = getattr(inbound.request, "ledger_id", None)
            counts[ledger_id] -= 1
            if not counts[ledger_id]:
                del counts[ledger_id]
        return size

    def take_all(self) -> Iterable[Inbound]:
        """Return all requests; the connection is dropped after that."""
        for lane in (self._small.waiting, self._large.waiting, self._fences):
            yield from (inbound for inbound, _received_us in lane)

    @property
    def is_empty(self) -> bool:
        """True when nothing waits."""
        return not (self._small.waiting or self._large.waiting or self._fences)

    def is_throttled(self, now_ms: int) -> bool:
        """Return whether only time lets the next of its requests be taken."""
        if now_ms < self.rates.free_ms:
            return True
        if self._small.waiting or now_ms >= self.rates.fence_ms:
            return False
        return not self._large.waiting or self._is_fence_next()

    def _is_fence_next(self) -> bool:
        """Return whether a fence is the next one of the large lane."""
        waiting = self._large.waiting
        return bool(waiting) and is_fence(waiting[0][0])

    def is_held(self, now_ms: int) -> bool:
        """Return whether the next of its requests is a large one."""
        is_large = bool(self._large.waiting and not self._small.waiting)
        return is_large and not self.is_throttled(now_ms)


class FairQueue:
    """The waiting requests of all connections. Any thread."""

    def __init__(self, limits: RateLimits = NO_LIMITS) -> None:
        self._lock = threading.Lock()
        self._rates = RateTable(limits)
        self._connections: dict[bytes, _Connection] = {}
        self._round: deque[bytes] = deque()  # the next to be served first
        self._is_known = False  # the storage actor has a message, or makes one
        self._large_us = self._hurried_until_us = 0

    def change(self, limits: RateLimits) -> None:
        """Set other rates."""
        with self._lock:
            self._rates.change(limits)

    @property
    def is_empty(self) -> bool:
        """True when nothing waits. The thread that puts."""
        return not self._connections

    def may_pass(self, batch: Sequence[Inbound]) -> bool:
        """Return whether requests need not wait in the queue. The thread that puts."""
        if self._connections or self._rates.has_all:
            return False
        return not any(is_fence(one) for one in batch)

    def put(self, batch: Iterable[Inbound], received_us: int) -> bool:
        """Add requests, in order; return whether the storage actor must be told."""
        connections = self._connections
        with self._lock:
            for inbound in batch:
                connection = connections.get(inbound.peer)
                if connection is None:
                    rates = self._rates.of(inbound, received_us // 1_000)
                    connection = connections[inbound.peer] = _Connection(rates)
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
        now_ms = now_us // 1_000
        served: dict[bytes, None] = {}
        size = idle_count = 0  # connections in a row that have nothing to give now
        with self._lock:
            is_hurried = now_us < self._hurried_until_us
            turns, connections = self._round, self._connections
            while turns and size < TURN_SIZE and idle_count < len(turns):
                name = turns.popleft()
                connection = connections[name]
                is_held = is_hurried and unsynced_size + size >= PACE_SIZE
                given_size = connection.take(taken, now_ms, is_held=is_held)
                size += given_size
                if given_size:
                    served[name] = None
                if connection.is_empty:
                    del connections[name]
                    continue
                turns.append(name)
                is_idle = connection.is_throttled(now_ms) or (
                    is_held and connection.is_held(now_ms)
                )
                idle_count = idle_count + 1 if is_idle else 0
            is_idle = bool(turns) and idle_count == len(turns)
            if is_idle:  # those that share a rate with another one are next
                self._round = deque(sorted(turns, key=served.__contains__))
            left = [connections[name] for name in turns] if is_idle else []
            self._is_known = is_more = bool(turns) and not is_idle
        return Taken(
            [inbound for inbound, _received_us in taken],
            min((one_us for _inbound, one_us in taken), default=0),
            is_more,
            any(one.is_held(now_ms) for one in left),
            any(one.is_throttled(now_ms) for one in left),
        )

    def take_all(self) -> list[Inbound]:
        """Return all requests, whatever the rates: the bookie stops."""
        with self._lock:
            connections, self._connections = self._connections, {}
            self._round.clear()
            self._is_known = False
        return [inbound for one in connections.values() for inbound in one.take_all()]
