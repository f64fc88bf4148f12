"""The requests that were handed to one bookie and are not answered, and when they are late.

A busy bookie answers late, and that is no failure: it answers older requests first. So the clock of
a request starts when it is handed over, and starts again whenever an older one is answered. The
request is late when neither has happened for its time-out. A bookie that is hung answers no
request, so that all of them are late at the same time. A single request that hangs is late soon
after the last older one was answered; younger ones do not delay that.

Pure: the caller passes the time. Owned by a ``Connection``.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from zbk.transport.events import Outgoing

NEVER_MS: Final = 2**63 - 1
"""Later than any other time: nothing is due."""

MARK_COUNT_MAX: Final = 64
"""Marks that are kept before the obsolete ones are dropped."""


class Outstanding:
    """Requests by their ids, in the order in which they were handed over.

    Invariants, checked in ``_check``:
      * ``size`` is that of all requests, ``large_size`` that of the large lane;
      * the marks ascend, in ids and in times.
    """

    def __init__(self) -> None:
        self._pending: dict[int, Outgoing] = {}
        self._mark_ids: list[int] = []  # ids of answered requests,
        self._mark_times_ms: list[int] = []  # and when: each restarts all younger clocks
        self.size = 0
        """Bytes that count against the bookie's credit."""
        self.large_size = 0
        """Of these, the bytes of requests of the large lane."""
        self.large_counts: dict[int | None, int] = {}
        """Requests of the large lane by ledger, waiting ones too."""
        self.due_ms = NEVER_MS
        """A lower bound of when the first request is late."""

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, requests: Iterable[tuple[int, Outgoing]], now_ms: int) -> None:
        """Record requests that are handed over now, with their ascending ids."""
        pending, size, due_ms = self._pending, self.size, self.due_ms
        for request_id, outgoing in requests:
            outgoing.handed_ms = now_ms
            pending[request_id] = outgoing
            size += outgoing.size
            if outgoing.is_large:
                self.large_size += outgoing.size
            late_ms = now_ms + outgoing.timeout_ms
            due_ms = min(due_ms, late_ms)
        self.size, self.due_ms = size, due_ms

    def begin_large(self, outgoing: Outgoing) -> None:
        """Record that a request waits in the large lane."""
        ledger_id = outgoing.ledger_id
        self.large_counts[ledger_id] = self.large_counts.get(ledger_id, 0) + 1

    def _end_large(self, outgoing: Outgoing) -> None:
        self.large_size -= outgoing.size
        ledger_id = outgoing.ledger_id
        count = self.large_counts[ledger_id] - 1
        if count:
            self.large_counts[ledger_id] = count
        else:
            del self.large_counts[ledger_id]

    def take(self, request_id: int, now_ms: int) -> Outgoing | None:
        """Remove and return a request that was answered; ``None`` if it timed out before."""
        outgoing = self._pending.pop(request_id, None)
        if outgoing is None:
            return None
        self.size -= outgoing.size
        if outgoing.is_large:
            self._end_large(outgoing)
        ids, times_ms = self._mark_ids, self._mark_times_ms
        while ids and ids[-1] >= request_id:  # the answer to an older request came later
            ids.pop()
            times_ms.pop()
        if not times_ms or times_ms[-1] < now_ms:  # otherwise the mark before it covers this one
            ids.append(request_id)
            times_ms.append(now_ms)
            if len(ids) > MARK_COUNT_MAX:
                self._forget_marks()
        return outgoing

    def take_late(self, now_ms: int) -> list[Outgoing]:
        """Remove and return the late requests; ``due_ms`` is exact afterwards."""
        if now_ms < self.due_ms:
            return []
        self._forget_marks()
        late, due_ms = [], NEVER_MS
        for request_id, outgoing in self._pending.items():
            late_ms = self._late_ms(request_id, outgoing)
            if now_ms >= late_ms:
                late.append(request_id)
            else:
                due_ms = min(due_ms, late_ms)
        self.due_ms = due_ms
        taken = [self._pending.pop(request_id) for request_id in late]
        self.size -= sum(outgoing.size for outgoing in taken)
        for outgoing in taken:
            if outgoing.is_large:
                self._end_large(outgoing)
        self._check()
        return taken

    def take_all(self) -> list[Outgoing]:
        """Remove and return all requests."""
        taken = list(self._pending.values())
        self._pending.clear()
        self._mark_ids.clear()
        self._mark_times_ms.clear()
        self.size = self.large_size = 0
        self.large_counts.clear()
        self.due_ms = NEVER_MS
        return taken

    def _late_ms(self, request_id: int, outgoing: Outgoing) -> int:
        position = bisect_right(self._mark_ids, request_id)
        began_ms = self._mark_times_ms[position - 1] if position else 0
        return max(began_ms, outgoing.handed_ms) + outgoing.timeout_ms

    def _forget_marks(self) -> None:
        """Drop all but the last of the marks that are older than every request."""
        oldest_id = next(iter(self._pending), NEVER_MS)
        count = bisect_right(self._mark_ids, oldest_id) - 1
        if count > 0:
            del self._mark_ids[:count]
            del self._mark_times_ms[:count]

    def _check(self) -> None:
        assert self.size == sum(one.size for one in self._pending.values())
        large = [one.size for one in self._pending.values() if one.is_large]
        assert self.large_size == sum(large)
        assert len(self._mark_ids) == len(self._mark_times_ms)
        assert self._mark_ids == sorted(self._mark_ids)
        assert self._mark_times_ms == sorted(self._mark_times_ms)
