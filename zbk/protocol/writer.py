"""The writer of one ledger: batches out, acks in, and what the application may be told.

The core of a writer as a pure state machine: ``handle(event, now_ms)`` returns what to do. It
holds no socket, thread or clock; a client actor is its body. Events and effects are in
``writer_events`` and are re-exported here.

Batches     form by themselves out of what queued while the window was full; a lone append leaves
            at once. A batch counts against the window until an ack quorum has acknowledged it *and*
            every live slot has answered it: a slow bookie slows the writer down.
Slots       start down. A slot that is down holds back neither the window nor memory. When it comes
            up it gets the batches that are not acknowledged; those that were acknowledged without
            it stay under-replicated until somebody repairs the ledger.
Restart     a bookie that comes back with a higher incarnation has, on a VD ledger, lost its acks
            of pending batches and its ``LastAddSynced``. Answers of an earlier life, of a slot
            that went down, or of a batch that nobody waits for, change nothing.
Failure     LedgerFenced, Unauthorized and LedgerClosed end the writer at once. Any other error
            makes the slot suspect. When pending entries could not reach an ack quorum for
            ``quorum_grace_ms`` without progress, the writer ends with NotEnoughBookies.
LAC         what the ledger's level says, moved to ends of acknowledged batches only.
Sync        ``sync_rounds``. A VD writer also syncs by itself when half of
            ``unsynced_batch_count_max`` is reached; at the limit it sends nothing more, and ends
            with CannotAdvance when ``quorum_grace_ms`` does not help.
Close       no more appends; everything pending is finished; a VD ledger is synced; stragglers of
            live slots get ``close_linger_ms``; then the ledger is closed at its LAC. Also after an
            error, except after LedgerFenced: then its end is somebody else's to find.

Decisions: no ensemble change yet (``SlotSuspect`` is where it will begin). The ids of a striped
batch's parts name it: an answer is matched by the first id that its slot was sent.

Source: "The BookKeeper protocol", sections Writing to ledgers, Closing a ledger as a writer;
BookKeeper's ``LedgerHandle`` and ``PendingAddOp``; the relaxed-durability proposal.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, assert_never

from zbk.errors import (
    BusyError,
    CannotAdvanceError,
    LedgerClosedError,
    LedgerFencedError,
    NotDurableError,
    NotEnoughBookiesError,
    UnauthorizedError,
    WireError,
    ZbkError,
)
from zbk.protocol.batch_encoder import BatchEncoder
from zbk.protocol.digest import DigestFunction
from zbk.protocol.grace import Grace
from zbk.protocol.lac_policy import WriterLevel
from zbk.protocol.quorum import Quorum
from zbk.protocol.sync_rounds import SyncRounds
from zbk.protocol.words import NO_ENTRY, DigestType
from zbk.protocol.write_path import WritePath
from zbk.protocol.writer_events import (
    Abandoned,
    Acked,
    AddAnswered,
    AddFailed,
    Append,
    Appends,
    ApplicationEvent,
    CloseFailed,
    CloseLedger,
    CloseRequested,
    ConnectionEvent,
    Effect,
    Event,
    Failed,
    SendAdd,
    SendSync,
    SlotDown,
    SlotSuspect,
    SlotUp,
    SyncAnswered,
    SyncDone,
    SyncFailed,
    SyncFailedFor,
    SyncRequested,
    Tick,
    Ticket,
    WriterLimits,
)
from zbk.protocol.writer_slots import WriterSlots

__all__ = [
    "Abandoned",
    "Acked",
    "AddAnswered",
    "AddFailed",
    "Append",
    "Appends",
    "CloseFailed",
    "CloseLedger",
    "CloseRequested",
    "Effect",
    "Event",
    "Failed",
    "SendAdd",
    "SendSync",
    "SlotDown",
    "SlotSuspect",
    "SlotUp",
    "SyncAnswered",
    "SyncDone",
    "SyncFailed",
    "SyncFailedFor",
    "SyncRequested",
    "Tick",
    "Ticket",
    "WriterCore",
    "WriterLimits",
]

SELF_SYNC_INTERVAL_MS: Final = 1_000
"""Least time between two syncs that a writer asks for by itself."""

_FINAL_ERRORS = (LedgerFencedError, UnauthorizedError, LedgerClosedError)


class _Phase(Enum):
    """How far a close has come."""

    FLUSH = "flush"
    SYNC = "sync"
    LINGER = "linger"


class _Close:
    """A close that is under way."""

    __slots__ = ("deadline_ms", "phase", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.phase = _Phase.FLUSH
        self.deadline_ms = 0


class WriterCore:
    """One ledger's writer.

    ``ensemble`` holds the bookie ids by slot, for the text of errors.

    Invariants, checked in ``_check`` (and in ``WritePath.check``):
      * LAC <= last acked <= last pushed <= last appended;
      * after an error, or the close, nothing is queued or pending.
    """

    def __init__(
        self,
        ledger_id: int,
        quorum: Quorum,
        level: WriterLevel,
        *,
        ensemble: Sequence[str],
        digest_type: DigestType,
        digest: DigestFunction,
        limits: WriterLimits | None = None,
    ) -> None:
        """Make a writer of an empty ledger.

        Raises:
            UnsupportedLedgerError: the level can not work with these sizes.
        """
        level.check_quorum(quorum)
        assert len(ensemble) == quorum.ensemble_size, "a bookie a slot"
        self._ledger_id = ledger_id
        self._quorum = quorum
        self._level = level
        self._limits = limits or WriterLimits()
        self._slots = WriterSlots(ensemble)
        encoder = BatchEncoder(ledger_id, quorum, digest_type, digest)
        self._path = WritePath(quorum, level.new_lac_policy(quorum), encoder, self._limits)
        self._syncs = SyncRounds(
            ledger_id,
            ack_size=quorum.ack_size,
            grace_ms=self._limits.quorum_grace_ms,
            count_max=self._limits.sync_count_max,
        )
        self._quorum_grace = Grace(self._limits.quorum_grace_ms)
        self._unsynced_grace = Grace(self._limits.quorum_grace_ms)
        self._self_sync_at_ms = 0
        self._error: ZbkError | None = None
        self._close: _Close | None = None
        self._is_closed = False
        self._now_ms = 0
        self._effects: list[Effect] = []

    # ------------------------------------------------------------------ what the body may read

    @property
    def last_pushed_id(self) -> int:
        """The LAP: the highest entry id given out; -1 is none."""
        return self._path.last_appended_id

    @property
    def last_acked_id(self) -> int:
        """The last entry acknowledged to the application, in order; -1 is none."""
        return self._path.last_acked_id

    @property
    def lac(self) -> int:
        """The LAC: everything up to it is durable on an ack quorum; -1 is none."""
        return self._path.lac

    @property
    def length(self) -> int:
        """Bytes of payload up to and with the LAC."""
        return self._path.length

    @property
    def window_size(self) -> int:
        """Bytes of batches in memory."""
        return self._path.window_size

    @property
    def error(self) -> ZbkError | None:
        """What ended the writer, if anything did."""
        return self._error

    # ------------------------------------------------------------------ the door

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; return what is to be done, in order."""
        effects: list[Effect] = []
        self._effects = effects
        self._now_ms = now_ms
        if not isinstance(event, Tick):  # time passes with every event
            self._take_in(event)
        if not self._is_closed:
            self._go_on()
        self._check()
        return effects

    def _take_in(self, event: ApplicationEvent | ConnectionEvent) -> None:
        match event:
            case Append() | Appends() | SyncRequested() | CloseRequested() | Abandoned():
                self._take_in_call(event)
            case AddAnswered():
                self._on_add_answered(event)
            case AddFailed():
                self._on_add_failed(event)
            case SlotUp():
                self._on_slot_up(event.slot, event.incarnation)
            case SlotDown():
                self._take_down(event.slot, event.error)
            case SyncAnswered():
                self._on_sync_answered(event)
            case SyncFailed():
                self._on_sync_failed(event)
            case _:
                assert_never(event)

    def _take_in_call(self, event: ApplicationEvent) -> None:
        match event:
            case Append():
                self._on_appends([(event.ticket, event.payloads)])
            case Appends():
                self._on_appends(event.items)
            case SyncRequested():
                self._on_sync_requested(event.ticket)
            case CloseRequested():
                self._on_close_requested(event.ticket)
            case Abandoned():
                self._on_abandoned(event.error)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ the application calls

    def _on_appends(self, items: Sequence[tuple[Ticket, Sequence[bytes]]]) -> None:
        if self._refusal is not None:
            self._effects.append(Failed([ticket for ticket, _payloads in items], self._refusal))
            return
        for ticket, payloads in items:
            self._path.append(ticket, payloads)

    def _on_sync_requested(self, ticket: Ticket) -> None:
        if self._refusal is not None:
            self._effects.append(SyncFailedFor(ticket, self._refusal))
            return
        try:
            self._syncs.request(ticket, self.last_pushed_id)
        except BusyError as error:
            self._effects.append(SyncFailedFor(ticket, error))

    def _on_close_requested(self, ticket: Ticket) -> None:
        if isinstance(self._error, LedgerFencedError):
            self._effects.append(CloseFailed(ticket, self._error))
        elif self._close is not None or self._is_closed:
            self._effects.append(CloseFailed(ticket, LedgerClosedError(self._ledger_id)))
        else:
            self._close = _Close(ticket)

    def _on_abandoned(self, error: ZbkError) -> None:
        self._fail(error)
        if self._close is not None:
            self._effects.append(CloseFailed(self._close.ticket, error))
        self._end()

    @property
    def _refusal(self) -> ZbkError | None:
        """Why nothing new is taken, if so."""
        if self._error is None and (self._close is not None or self._is_closed):
            return LedgerClosedError(self._ledger_id)
        return self._error

    # ------------------------------------------------------------------ the connections say

    def _on_add_answered(self, event: AddAnswered) -> None:
        if self._is_news(event.slot, event.incarnation, event.last_add_synced):
            before_id = self.last_acked_id
            self._effects += self._path.answered(event.slot, event.first_entry_id)
            if self.last_acked_id > before_id:
                self._quorum_grace.reset()

    def _on_add_failed(self, event: AddFailed) -> None:
        if not self._path.is_awaited(event.slot, event.first_entry_id):
            return  # of a slot that went down since: late news
        if isinstance(event.error, _FINAL_ERRORS):
            self._fail(event.error)
        else:
            self._suspect(event.slot, event.error)

    def _on_slot_up(self, slot: int, incarnation: int) -> None:
        self._take_down(slot)  # a new connection: the old one answers nothing more
        try:
            is_restart = self._slots.up(slot, incarnation)
        except WireError as error:
            self._suspect(slot, error)
            return
        self._path.synced(slot, incarnation, NO_ENTRY)
        if self._error is None and not self._is_closed:
            is_revoked = is_restart and self._level.restart_revokes_acks
            self._effects += self._path.resend(slot, is_revoked=is_revoked)
        sync_id = self._syncs.slot_up(slot)
        if sync_id is not None:
            self._effects.append(SendSync(slot, sync_id, self.lac))

    def _on_sync_answered(self, event: SyncAnswered) -> None:
        if self._is_news(event.slot, event.incarnation, event.last_add_synced):
            self._syncs.answered(event.slot, event.sync_id)

    def _on_sync_failed(self, event: SyncFailed) -> None:
        is_awaited = self._syncs.failed(event.slot, event.sync_id, event.error)
        if is_awaited and isinstance(event.error, _FINAL_ERRORS):
            self._fail(event.error)

    def _is_news(self, slot: int, incarnation: int, last_add_synced: int) -> bool:
        """Take in who answers and what it has synced; tell whether the answer counts."""
        try:
            if not self._slots.is_answer_valid(slot, incarnation):
                return False
            self._slots.check_synced(slot, last_add_synced, self._path.last_pushed_id)
        except WireError as error:
            self._suspect(slot, error)
            return False
        self._path.synced(slot, incarnation, last_add_synced)
        return True

    def _suspect(self, slot: int, error: ZbkError) -> None:
        self._take_down(slot, error)
        self._effects.append(SlotSuspect(slot, error))

    def _take_down(self, slot: int, error: ZbkError | None = None) -> None:
        self._slots.go_down(slot, error)
        self._path.lost(slot)
        self._syncs.slot_down(slot, self._slots.error_of(slot))

    # ------------------------------------------------------------------ what follows

    def _go_on(self) -> None:
        if self._error is None:
            self._effects += self._path.send_batches(self._slots.live)
            self._watch_ack_quorum()
            self._watch_unsynced()
        self._drive_syncs()
        if self._close is not None:
            self._drive_close(self._close)

    def _watch_ack_quorum(self) -> None:
        slots = self._slots
        if not slots.down or self._path.is_reachable(slots.down):
            return  # a grace that began runs on until entries are acknowledged again
        if self._quorum_grace.is_over(self._now_ms):
            needed, count = self._quorum.ack_size, len(slots.live)
            self._fail(NotEnoughBookiesError(needed, count, slots.why_down()))

    def _watch_unsynced(self) -> None:
        limit, count = self._limits.unsynced_batch_count_max, self._path.unsynced_batch_count
        is_stuck = count >= limit and self._unsynced_grace.is_over(self._now_ms)
        if count < limit:
            self._unsynced_grace.reset()
        if self._syncs.has_round:
            return
        if count * 2 >= limit and self._now_ms >= self._self_sync_at_ms:
            self._syncs.demand()
            self._self_sync_at_ms = self._now_ms + SELF_SYNC_INTERVAL_MS
        elif is_stuck:
            reason = f"{limit} acknowledged batches are not durable: {self._slots.why_down()}"
            self._fail(CannotAdvanceError(self._ledger_id, self.lac, self.last_acked_id, reason))

    def _drive_syncs(self) -> None:
        if self._syncs.is_idle:
            return
        may_wait = self._error is None
        self._effects += self._syncs.drive(
            self.lac, self.last_acked_id, self._slots, self._now_ms, may_wait=may_wait
        )

    # ------------------------------------------------------------------ the end

    def _drive_close(self, close: _Close) -> None:
        if close.phase is _Phase.FLUSH:
            if not self._path.is_flushed:
                return
            if self._level.needs_sync_before_close and self.lac < self.last_acked_id:
                self._syncs.request(None, self.last_acked_id)
                self._drive_syncs()
            close.phase = _Phase.SYNC
        if close.phase is _Phase.SYNC and not self._syncs:
            close.phase = _Phase.LINGER
            close.deadline_ms = self._now_ms + self._limits.close_linger_ms
        is_over = self._path.is_answered or self._now_ms >= close.deadline_ms
        if close.phase is _Phase.LINGER and is_over:
            self._close_ledger(close.ticket)

    def _close_ledger(self, ticket: Ticket) -> None:
        error = None
        if self.lac < self.last_acked_id:
            error = NotDurableError(self._ledger_id, self.lac, self.last_acked_id)
        self._effects.append(CloseLedger(ticket, self.lac, self.length, error))
        self._end()

    def _end(self) -> None:
        self._path.drain()
        self._close = None
        self._is_closed = True

    def _fail(self, error: ZbkError) -> None:
        is_fenced = isinstance(error, LedgerFencedError)
        if self._error is None or is_fenced:  # being fenced outweighs whatever came before
            self._error = error
        tickets = self._path.drain()
        if tickets:
            self._effects.append(Failed(tickets, error))
        self._effects += self._syncs.fail_all(error)
        if self._close is not None and is_fenced:
            self._effects.append(CloseFailed(self._close.ticket, error))
            self._close = None

    def _check(self) -> None:
        self._path.check()
        if self._error is not None or self._is_closed:
            assert self._path.is_answered, "after the end nothing waits"
