"""The explicit LAC: readers see the last entry of a writer that is idle or has synced.

A LAC travels with the entries that come after it. If none come, the writer sends its LAC to the
bookies by itself: after it has been idle for ``explicit_lac_ms``, once for each LAC that its last
entry did not carry. No call waits for it. A slot that was down, or failed to store it, gets it
again when it is up, up to ``explicit_lac_count_max`` times in all.

A sync of the application is answered after its LAC was sent and an ack quorum of a write set has it
on stable storage, or no live bookie is left that could confirm this. A reader that is opened after
the answer then reads up to it, because the bookies that a reader queries cover the ensemble: they
include one of each ack quorum of each write set. With an ``explicit_lac_ms`` of 0 nothing is sent.

Only a ``Tick`` looks at the time, so a busy writer pays nothing; ``due_ms`` is the next one needed.

Source: BookKeeper's ``ExplicitLacFlushPolicy``.
"""

from collections.abc import Collection, Sequence
from typing import Final

from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import Effect, SendLac, SyncDone
from zbk.protocol.write.limits import WriterLimits

RETRY_MS: Final = 1_000
"""Pause before a slot that was down, or failed to take the LAC, is told again."""


class ExplicitLac:
    """The LACs that a writer's bookies were sent, and the syncs that wait for them.

    Invariant, checked where they are queued: the LACs that syncs wait for never go down.
    """

    __slots__ = (
        "_ack_size", "_awaited", "_count_max", "_epochs", "_lac", "_left_counts", "_pause_ms",
        "_since_ms", "_taken_lacs", "_told", "_told_lac", "_told_ms", "_waiting", "_write_sets",
    )  # fmt: skip

    def __init__(self, quorum: Quorum, limits: WriterLimits, epochs: Sequence[int]) -> None:
        """``epochs``: by slot; its owner counts them on."""
        slot_count = quorum.ensemble_size
        self._epochs = epochs
        self._ack_size = quorum.ack_size
        self._write_sets = quorum.write_sets
        self._pause_ms = limits.explicit_lac_ms
        self._count_max = limits.explicit_lac_count_max
        self._lac = NO_ENTRY  # as last seen by an idle writer,
        self._since_ms = 0  # and since when
        self._told_lac = NO_ENTRY
        self._told_ms = 0
        self._told = 0  # bits of the slots that were, and have not failed to take it
        self._left_counts = [0] * slot_count  # how often a slot may still be told it
        self._taken_lacs = [NO_ENTRY] * slot_count  # what each slot has said to have
        self._awaited: dict[int, int] = {}  # by slot: the last LAC that it has not answered
        self._waiting: list[SyncDone] = []

    def idle(self, lac: int, now_ms: int) -> None:
        """Record that the writer is idle, and its LAC."""
        if lac != self._lac:
            self._lac, self._since_ms = lac, now_ms

    def due_ms(self, pushed_lac: int, live: Collection[int]) -> int | None:
        """Return when the next send is due, if no event comes before; ``None``: never."""
        if not self._pause_ms or self._lac <= pushed_lac:
            return None
        idle_ms = self._since_ms + self._pause_ms  # before that ``tick`` sends nothing
        if self._lac > self._told_lac:
            return idle_ms
        return max(idle_ms, self._told_ms + RETRY_MS) if self._untold(live) else None

    def tick(self, lac: int, pushed_lac: int, live: Collection[int], now_ms: int) -> list[Effect]:
        """Return the sends that are due while the writer is idle. Bookies know ``pushed_lac``."""
        self.idle(lac, now_ms)
        is_over = self._pause_ms and now_ms - self._since_ms >= self._pause_ms
        if not is_over or lac <= pushed_lac:
            return []
        return self._tell(lac, live, now_ms)

    def publish(self, done: SyncDone, live: Collection[int], now_ms: int) -> list[Effect]:
        """Send the LAC of a sync; return the sends, and its answer if nothing is to be waited for.

        The rest of the answers come from what is called next.
        """
        if not self._pause_ms:
            return [done]
        assert not self._waiting or self._waiting[-1].last_entry_id <= done.last_entry_id
        self._waiting.append(done)
        sends = self._tell(done.last_entry_id, live, now_ms)
        return [*sends, *self._settled()]

    def taken(self, slot: int, lac: int) -> list[Effect]:
        """Record that a slot has a LAC on stable storage; return the syncs that this completes."""
        self._taken_lacs[slot] = max(lac, self._taken_lacs[slot])
        return self._answered(slot, lac)

    def failed(self, slot: int, lac: int) -> list[Effect]:
        """Record that a slot did not store a LAC; return the syncs that wait no longer."""
        if lac == self._told_lac:
            self._told &= ~(1 << slot)
        return self._answered(slot, lac)

    def slot_down(self, slot: int) -> list[Effect]:
        """Record that a slot will not answer; return the syncs that wait no longer."""
        if self._awaited.pop(slot, None) is None:
            return []
        self._told &= ~(1 << slot)
        return self._settled()

    def replaced(self, slot: int) -> list[Effect]:
        """Record that another bookie is in the slot, and was told nothing yet.

        Return the syncs that wait no longer: what the old bookie took of late counts for none.
        """
        self._taken_lacs[slot] = NO_ENTRY
        self._told &= ~(1 << slot)
        self._left_counts[slot] = self._count_max
        self._awaited.pop(slot, None)
        return self._settled()

    def give_up(self) -> list[Effect]:
        """Return the syncs that wait: their entries are durable, whether or not bookies know it."""
        waiting: list[Effect] = [*self._waiting]
        self._waiting.clear()
        return waiting

    def _tell(self, lac: int, live: Collection[int], now_ms: int) -> list[Effect]:
        if lac > self._told_lac:
            self._told_lac = lac
            self._told = 0
            self._left_counts = [self._count_max] * len(self._left_counts)
        due = self._untold(live)
        if due:
            self._told_ms = now_ms
        for slot in due:
            self._told |= 1 << slot
            self._left_counts[slot] -= 1
            self._awaited[slot] = self._told_lac
        return [SendLac(slot, self._told_lac, self._epochs[slot]) for slot in due]

    def _untold(self, live: Collection[int]) -> list[int]:
        return [slot for slot in live if not self._told >> slot & 1 and self._left_counts[slot]]

    def _answered(self, slot: int, lac: int) -> list[Effect]:
        if self._awaited.get(slot, NO_ENTRY) <= lac:
            self._awaited.pop(slot, None)
        return self._settled()

    def _settled(self) -> list[Effect]:
        if not self._waiting:
            return []
        done: list[Effect] = []
        for one in self._waiting:
            lac = one.last_entry_id
            is_awaited = max(self._awaited.values(), default=NO_ENTRY) >= lac
            if is_awaited and not self._is_taken(lac):
                break
            done.append(one)
        del self._waiting[: len(done)]
        return done

    def _is_taken(self, lac: int) -> bool:
        """Return whether an ack quorum of a write set has a LAC on stable storage."""
        taken = self._taken_lacs
        counts = (sum(taken[slot] >= lac for slot in one) for one in self._write_sets)
        return max(counts) >= self._ack_size
