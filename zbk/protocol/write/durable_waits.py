"""Calls that wait until entries are durable, and the one sync that serves them all.

A call waits for an entry id. While any call waits, the writer has one sync of its own among
``SyncRounds``, up to the highest entry that was waited for when it was requested. A wait is over
when the LAC reaches its entry, by whatever means. If the sync fails, the waits that it covered
fail; later ones get the next sync. So a thousand waits cost as many fsyncs as one does.

Source: the relaxed-durability proposal; the inverse of BookKeeper's ``WriteFlag.DEFERRED_SYNC``.
"""

from heapq import heappop, heappush
from typing import Final

from zbk.errors import BusyError, CannotAdvanceError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.write.events import Effect, SyncDone, SyncFailedFor, Ticket
from zbk.protocol.write.sync_rounds import SyncRounds

TICKET: Final = object()
"""The ticket of the sync that serves the waits."""


class DurableWaits:
    """The waits of one writer, by entry id.

    Invariant: a sync is requested while there are waits, and at most one at a time.
    """

    __slots__ = ("_count", "_count_max", "_heap", "_last_id", "_ledger_id", "_target_id")

    def __init__(self, ledger_id: int, count_max: int) -> None:
        self._ledger_id = ledger_id
        self._count_max = count_max
        self._heap: list[tuple[int, int, Ticket]] = []
        self._count = 0  # of all waits so far: equal entry ids stay in order
        self._last_id = NO_ENTRY  # the highest that is waited for
        self._target_id: int | None = None  # of the sync that is requested

    def __len__(self) -> int:
        """Return the number of waits."""
        return len(self._heap)

    def add(self, ticket: Ticket, entry_id: int) -> list[Effect]:
        """Record a wait; return its failure if too many wait."""
        if len(self._heap) >= self._count_max:
            what = f"{self._count_max} calls wait already until entries are durable"
            error = BusyError(f"ledger {self._ledger_id}: {what}")
            return [SyncFailedFor(ticket, error)]
        heappush(self._heap, (entry_id, self._count, ticket))
        self._count += 1
        self._last_id = max(self._last_id, entry_id)
        return []

    def drive(self, lac: int, syncs: SyncRounds) -> list[Effect]:
        """Return the answers of the waits that are over; request a sync for the others."""
        done = self._done(lac)
        if self._heap and self._target_id is None:
            self._target_id = self._last_id
            syncs.request_own(TICKET, self._last_id)
        return done

    def synced(self) -> None:
        """Record that the requested sync is done."""
        self._target_id = None

    def failed(self, lac: int, error: ZbkError) -> list[Effect]:
        """Record that the requested sync failed; return the answers of the waits it covered."""
        answers = self._done(lac)
        covered_id = NO_ENTRY if self._target_id is None else self._target_id
        while self._heap and self._heap[0][0] <= covered_id:
            entry_id, _number, ticket = heappop(self._heap)
            one = error
            if isinstance(error, CannotAdvanceError):
                one = CannotAdvanceError(self._ledger_id, lac, entry_id, error.reason)
            answers.append(SyncFailedFor(ticket, one))
        self._target_id = None
        return answers

    def fail_all(self, lac: int, error: ZbkError) -> list[Effect]:
        """Forget everything; return the answers of all waits: those beyond the LAC fail.

        What is durable is durable, also in a writer that has ended.
        """
        answers = self._done(lac)
        while self._heap:
            answers.append(SyncFailedFor(heappop(self._heap)[2], error))
        self._target_id = None
        return answers

    def _done(self, lac: int) -> list[Effect]:
        done: list[Effect] = []
        while self._heap and self._heap[0][0] <= lac:
            done.append(SyncDone(heappop(self._heap)[2], lac))
        return done
