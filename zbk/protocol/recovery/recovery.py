"""The recovery of a ledger whose writer is gone, or has to be stopped.

A client that recovers a ledger changes its state to IN_RECOVERY first (``begin_recovery``) and
gives the resulting metadata to a ``RecoveryCore``. From then on the last fragment stays as it is:
no writer can add one. The steps:

    fence       every bookie of the last ensemble, until no write quorum is left that could
                complete an add; the highest LAC of all answers zbk.protocol.recovery.fence
    read        entries after the LAC, up to the first one that cannot be acknowledged; each read
                fences, too                                     zbk.protocol.recovery.reads
    write back  the entries found, while the reading continues  zbk.protocol.recovery.writes
    length      up to the last entry; if no entry was found, from the metadata of an empty last
                fragment, or from a read of that entry          zbk.protocol.recovery.length
    close       by a compare-and-swap of the body               zbk.protocol.ledger.changes

The reading starts after the highest LAC, but never before the last fragment: its writer began that
after all entries before it were confirmed (BookKeeper #2615). Nor does it start below the LAC that
the metadata record as reported: its entries are on stable storage of an ack quorum.

Any number of clients may recover one ledger at the same time: each finds every acknowledged entry.
The first compare-and-swap decides the end; the others adopt it. A recovery that fails leaves the
ledger IN_RECOVERY, and nothing but more copies of its entries: it can be recovered again. It never
closes a ledger short because it knows too little.

Decision: a machine with events, not a procedure. Fences, reads of several bookies that run ahead,
write-backs to several bookies, and the choice of replacements are under way at the same time, and
each answer may advance any of them.

Words: a *positive* and a *negative* are a bookie's valid yes and no to one entry.

Source: "The BookKeeper protocol", section Closing a ledger as a reader, Fencing; BookKeeper's
``LedgerRecoveryOp``, ``ReadOnlyLedgerHandle.recover``.
"""

from typing import assert_never

from zbk.errors import LedgerRecoveryError, UnauthorizedError, ZbkError
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.recovery.events import (
    CloseRecovered,
    Effect,
    Event,
    FenceAnswered,
    ReadAnswered,
    RecoveryFailed,
    RecoveryLimits,
    RecoveryStarted,
    ReplacementsChosen,
    SendFence,
    Tick,
    TimeIsOver,
    WriteAnswered,
)
from zbk.protocol.recovery.fence import FenceRound
from zbk.protocol.recovery.length import LengthRead
from zbk.protocol.recovery.reads import RecoveryReads
from zbk.protocol.recovery.writes import RecoveryWrites


class RecoveryCore:
    """One recovery of one ledger, whose state is IN_RECOVERY in ``metadata``.

    Invariants, checked in ``_check``:
      * the steps come in their order, and an effect that ends the recovery is the last one;
      * the entries written back are those read, in order and without a gap, from the LAC on.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        *,
        digest: DigestFunction,
        limits: RecoveryLimits | None = None,
    ) -> None:
        assert metadata.state is LedgerState.IN_RECOVERY, "the state is changed first"
        self._metadata = metadata
        self._digest = digest
        self._limits = limits or RecoveryLimits()
        self._fence = FenceRound(metadata.quorum, metadata.confirmed_floor, self._limits)
        self._reads: RecoveryReads | None = None
        self._writes: RecoveryWrites | None = None
        self._length: LengthRead | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True when the end of the ledger is known, or the recovery has failed."""
        return self._is_over

    @property
    def lac(self) -> int:
        """The highest LAC so far. The reading starts after it."""
        return self._fence.lac

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects. After the end, events are ignored."""
        if self._is_over:
            return []
        effects: list[Effect] = []
        match event:
            case RecoveryStarted() | Tick():
                pass
            case FenceAnswered(slot, lac):
                effects += self._on_fence(slot, lac, now_ms)
            case ReadAnswered(read_id, body):
                effects += self._on_read(read_id, body, now_ms)
            case WriteAnswered(write_id, error):
                self._on_write(write_id, error)
            case ReplacementsChosen():
                assert self._writes is not None, "only writes need replacements"
                effects += self._writes.chosen(event.bookies)
            case TimeIsOver():
                effects += self._fail(self._error(f"time is over; {self._waits_for()}"))
            case _:
                assert_never(event)
        if not self._is_over:
            effects += self._proceed(now_ms)
        self._check()
        return effects

    # ------------------------------------------------------------------ events

    def _on_fence(self, slot: int, lac: int | ZbkError, now_ms: int) -> list[Effect]:
        if self._reads is not None:
            return []  # late: the LAC is fixed
        match lac:
            case UnauthorizedError() as error:
                return self._fail(error)
            case ZbkError() as error:
                self._fence.failed(slot, error, now_ms)
            case int():
                self._fence.answered(slot, lac)
        return []

    def _on_read(self, read_id: int, body: bytes | ZbkError, now_ms: int) -> list[Effect]:
        assert self._reads is not None, "reads follow the fence"
        if isinstance(body, UnauthorizedError):
            return self._fail(body)
        if self._length is not None and self._length.is_mine(read_id):
            return [*self._length.answered(read_id, body, now_ms)]
        if isinstance(body, ZbkError):
            self._reads.failed(read_id, body, now_ms)
        else:
            self._reads.answered(read_id, body)
        return []

    def _on_write(self, write_id: int, error: ZbkError | None) -> None:
        assert self._writes is not None, "writes follow the fence"
        if error is None:
            self._writes.answered(write_id)
        else:
            self._writes.failed(write_id, error)

    # ------------------------------------------------------------------ steps

    def _proceed(self, now_ms: int) -> list[Effect]:
        """Advance the steps as far as possible."""
        effects: list[Effect] = []
        if self._reads is None or self._writes is None:
            if not self._fence.is_done:
                return self._proceed_fencing(now_ms)
            self._reads, self._writes = self._begin_reading()
        if self._length is None:
            effects += self._proceed_reading(self._reads, self._writes, now_ms)
            if self._is_over or not (self._reads.is_at_end and self._writes.is_done):
                return effects
            start = self._fence.lac
            if self._writes.last_entry_id > start or start == NO_ENTRY:
                return effects + self._close(self._writes, self._writes.last_length)
            before = self._metadata.length_before
            if isinstance(before, int) and start == self._metadata.last_fragment.first_entry_id - 1:
                return effects + self._close(self._writes, before)
            self._length = LengthRead(
                self._metadata, start, self._reads.read_count, self._digest, self._limits
            )
        return effects + self._proceed_length(self._length, self._writes, now_ms)

    def _proceed_fencing(self, now_ms: int) -> list[Effect]:
        if self._fence.is_hopeless:
            return self._fail(self._error(self._waits_for()))
        bookies = self._metadata.last_fragment.bookies
        return [SendFence(slot, bookies[slot]) for slot in self._fence.due(now_ms)]

    def _begin_reading(self) -> tuple[RecoveryReads, RecoveryWrites]:
        metadata, start = self._metadata, self._fence.lac
        fenced = [s for s in range(metadata.ensemble_size) if self._fence.is_fenced(s)]
        return (
            RecoveryReads(metadata, start + 1, fenced, self._digest, self._limits),
            RecoveryWrites(metadata, start, self._limits),
        )

    def _proceed_reading(
        self, reads: RecoveryReads, writes: RecoveryWrites, now_ms: int
    ) -> list[Effect]:
        effects: list[Effect] = [*writes.push(reads.take())]
        effects += writes.choose()
        if writes.failure is not None:
            return self._fail(writes.failure)
        if reads.is_stuck:
            return self._fail(self._error(reads.why_stuck()))
        return [*effects, *reads.ask(now_ms, self._read_ahead_count(reads, writes))]

    def _read_ahead_count(self, reads: RecoveryReads, writes: RecoveryWrites) -> int:
        """Return how many entries may be read ahead, so that the memory stays bounded."""
        if reads.found_size + writes.size < self._limits.window_size:
            return self._limits.window_count
        return 0 if writes.size else 1  # the next entry alone, because those after it wait for it

    def _proceed_length(
        self, step: LengthRead, writes: RecoveryWrites, now_ms: int
    ) -> list[Effect]:
        if step.length is not None:
            return self._close(writes, step.length)
        if step.is_hopeless:
            return self._fail(self._error(step.why_hopeless()))
        return [*step.due(now_ms)]

    # ------------------------------------------------------------------ ends

    def _close(self, writes: RecoveryWrites, length: int) -> list[Effect]:
        self._is_over = True
        return [CloseRecovered(writes.fragments, writes.last_entry_id, length)]

    def _fail(self, error: ZbkError) -> list[Effect]:
        self._is_over = True
        return [RecoveryFailed(error)]

    def _error(self, reason: str) -> LedgerRecoveryError:
        return LedgerRecoveryError(self._metadata.ledger_id, reason)

    def _waits_for(self) -> str:
        if self._reads is None or self._writes is None:
            return self._fence.why_not_done()
        if self._length is not None:
            return f"its last entry, {self._fence.lac}, was being read for the length"
        return (
            f"its entries up to {self._writes.last_entry_id} were found so far; "
            + self._writes.why_not_done()
        )

    def _check(self) -> None:
        if self._reads is None or self._writes is None:
            assert self._length is None, "the length comes last"
            return
        self._reads.check()
        self._writes.check()
        assert self._reads.next_id == self._writes.last_entry_id + 1, "every entry read is written"
