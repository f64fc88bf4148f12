"""The writer of one ledger: batches out, acks in, and what the application may be told.

The core of a writer as a pure state machine: ``handle(event, now_ms)`` returns what to do. It
holds no socket, thread or clock; a client actor is its body. Events and effects are in
``writer_events``.

Batches     form by themselves out of what queued while the window was full; a lone append leaves
            at once. A batch counts against the window until an ack quorum has acknowledged it *and*
            every live slot has answered it: a slow bookie slows the writer down.
Slots       start down. A slot that is down is owed every batch that it has not answered, also
            those that were acknowledged without it, and gets them when it comes up. It holds
            nothing up: what does not fit into the backlog is given up, and ``missing``.
Restart     a bookie that comes back with a higher incarnation has, on a VD ledger, lost its acks
            of pending batches and its ``LastAddSynced``; what it acknowledged beyond the LAC it is
            owed again, or it is missing there until the bookie is heard to have synced it.
            Answers of an earlier life, of a slot that went down, of a bookie that was replaced, or
            of a batch that nobody waits for, change nothing.
Failure     LedgerFenced, Unauthorized and LedgerClosed end the writer at once. Any other error
            makes the slot suspect. When pending entries could not reach an ack quorum for
            ``quorum_grace_ms`` without progress, the writer ends with NotEnoughBookies.
Ensemble    a slot that failed gets another bookie (``ensemble_keeper``), from the first entry on
            that is not acknowledged; on VD ledgers at a sync point, for which the writer pauses
            and syncs by itself (``sync_point``). Until the metadata say so nothing is
            acknowledged; then the acks of the replaced bookies are void, and the new ones are owed
            everything from that entry on. What was acknowledged before stays as it is; where the
            failed bookie has not answered it, it is missing there: an ack quorum has it.
            A slot that alone keeps the window full for ``slow_bookie_ms`` is replaced as well.
Missing     what bookies lack for good, as far as this writer is concerned, goes to autorecovery:
            of the fragments that a change of the ensemble ends, then; the rest with the close. A
            writer that dies leaves it to the recovery, which has all bookies compared.
LAC         what the ledger's level says, moved to ends of acknowledged batches only. An idle
            writer tells it to its bookies (``explicit_lac``).
Sync        ``sync_rounds``; answered when the LAC was told, too (``explicit_lac``). A VD writer
            also syncs by itself when it is idle (``idle_sync``), and when half of
            ``unsynced_batch_count_max`` is reached; at the limit it sends nothing more, and ends
            with CannotAdvance when ``quorum_grace_ms`` does not help.
Close       no more appends; everything pending is finished; a VD ledger is synced, again and again
            while the caller waits; stragglers of live slots, and new bookies that are being
            connected, get ``close_linger_ms``; then the ledger is closed at its LAC. Also after an
            error, except after LedgerFenced: then its end is somebody else's to find. A close that
            would drop acknowledged entries fails with NotDurable, unless the caller accepts the
            loss: the ledger stays open for another close or for recovery (``writer_close``). So
            does a VD ledger of which entries were sent and never acknowledged.
Outcome     the error of an append that may be in the ledger says so: its outcome is "unknown".

Decisions:
  * No replacement is to be had: BookKeeper closes the ledger. Here the writer goes on without the
    failed bookie as long as all that is pending can reach an ack quorum, asks again when other
    bookies come or after a pause, and takes the old bookie back if it returns first.
  * The metadata store does not answer during a change: appends wait, nothing is lost, and after
    ``metadata_grace_ms`` the writer ends with MetadataUnavailable.
  * An idle writer replaces a failed bookie as well; a closing one only while something is pending.
  * The ids of a striped batch's parts name it: an answer is matched by the first id that its slot
    was sent, and by the slot's epoch.

Source: "The BookKeeper protocol", sections Writing to ledgers, Closing a ledger as a writer;
BookKeeper's ``LedgerHandle`` and ``PendingAddOp``; the relaxed-durability proposal.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from zbk.errors import (
    AppendUnansweredError,
    BusyError,
    CannotAdvanceError,
    IllegalTransitionError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    NotDurableError,
    UnauthorizedError,
    WireError,
    ZbkError,
)
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.words import NO_ENTRY, DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write import events as ev
from zbk.protocol.write.batch_encoder import BatchEncoder
from zbk.protocol.write.closing import ClosePhase, Closing
from zbk.protocol.write.ensemble_keeper import EnsembleKeeper
from zbk.protocol.write.explicit_lac import ExplicitLac
from zbk.protocol.write.grace import Grace
from zbk.protocol.write.idle_sync import IdleSync
from zbk.protocol.write.lac_policy import WriterLevel
from zbk.protocol.write.missing_entries import MissingEntries
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_point import SyncPoint
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath

SELF_SYNC_INTERVAL_MS: Final = 1_000
"""Least time between two syncs that a writer asks for by itself."""

_FINAL_ERRORS = (LedgerFencedError, UnauthorizedError, LedgerClosedError)
_LOST_ERRORS = (*_FINAL_ERRORS, NoSuchLedgerError, IllegalTransitionError)
"""After these nothing becomes durable any more: the ledger is not this writer's, or is gone."""


class WriterCore:
    """One ledger's writer.

    ``ensemble`` holds the bookie ids by slot, for the text of errors.

    Invariants, checked in ``_check`` (and in ``WritePath.check``):
      * LAC <= last acked <= last pushed <= last appended;
      * after an error, or the close, nothing is queued or pending.
    """

    __slots__ = (
        "_close", "_effects", "_error", "_explicit_lac", "_idle_sync", "_is_calm", "_is_closed",
        "_is_ending", "_is_last_sync", "_is_unsynced_watched", "_keeper", "_ledger_id", "_level",
        "_limits", "_now_ms", "_path", "_quorum", "_self_sync_at_ms", "_slots", "_syncs",
        "_unsynced_grace",
    )  # fmt: skip

    def __init__(
        self,
        ledger_id: int,
        quorum: Quorum,
        level: WriterLevel,
        *,
        ensemble: Sequence[str],
        digest_type: DigestType,
        digest: DigestFunction,
        limits: ev.WriterLimits | None = None,
    ) -> None:
        """Make a writer of an empty ledger.

        Raises:
            UnsupportedLedgerError: the level cannot work with these sizes.
        """
        level.check_quorum(quorum)
        assert len(ensemble) == quorum.ensemble_size, "a bookie a slot"
        self._ledger_id = ledger_id
        self._quorum = quorum
        self._level = level
        self._limits = limits or ev.WriterLimits()
        self._slots = WriterSlots(ensemble)
        encoder = BatchEncoder(ledger_id, quorum, digest_type, digest)
        self._path = WritePath(
            quorum, level.new_lac_policy(quorum), encoder, self._limits, self._slots
        )
        self._syncs = SyncRounds(
            ledger_id,
            ack_size=quorum.ack_size,
            grace_ms=self._limits.quorum_grace_ms,
            count_max=self._limits.sync_count_max,
        )
        self._explicit_lac = ExplicitLac(quorum.ensemble_size, quorum.ack_size, self._limits)
        has_idle_sync = level.has_sync_cursor and bool(self._limits.explicit_lac_ms)
        self._idle_sync = IdleSync() if has_idle_sync else None
        self._keeper = EnsembleKeeper(
            self._slots,
            self._path,
            self._limits,
            ack_size=quorum.ack_size,
            sync_point=self._sync_point(),
        )
        self._unsynced_grace = Grace(self._limits.quorum_grace_ms)
        self._self_sync_at_ms = 0
        self._is_last_sync = False  # the grace is over: one more, and then the end
        self._is_unsynced_watched = False
        self._is_calm = False  # as ``_is_undisturbed`` was when the last event was taken in
        self._error: ZbkError | None = None
        self._close: Closing | None = None
        self._is_ending = False  # a close was asked for, whatever came of it
        self._is_closed = False
        self._now_ms = 0
        self._effects: list[ev.Effect] = []

    def _sync_point(self) -> SyncPoint | None:
        if self._level.changes_ensemble_at == "any time":
            return None
        return SyncPoint(
            self._path,
            self._slots,
            self._syncs,
            ack_size=self._quorum.ack_size,
            grace_ms=self._limits.quorum_grace_ms,
        )

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
    def backlog_size(self) -> int:
        """Bytes of batches in memory: some bookie has not answered them."""
        return self._path.backlog_size

    @property
    def is_watching(self) -> bool:
        """True while a period of grace or patience runs, so that ``Tick`` is needed often.

        Entries on their way to live bookies need none: their answers, and time-outs, are events.
        A call from another thread may return the state of a moment ago.
        """
        if self._is_closed:
            return False
        if self._is_calm:
            return self._path.is_held_up
        return bool(
            self._slots.down
            or self._close is not None
            or not self._syncs.is_idle
            or self._path.is_held_up
            or self._keeper.is_pending
            or self._keeper.is_seeking
            or self._path.unsynced_batch_count * 2 >= self._limits.unsynced_batch_count_max
        )

    @property
    def is_held_up(self) -> bool:
        """True while appends that were taken in wait for room: more of them would wait, too."""
        return self._path.is_held_up

    @property
    def next_tick_ms(self) -> int | None:
        """When a ``Tick`` is needed, if nothing happens before, beside those of ``is_watching``."""
        if not self._path.is_flushed or self._error is not None:
            return None
        if self._is_closed or self._close is not None:
            return None
        due_ms = self._explicit_lac.due_ms(self._path.pushed_lac, self._slots.live)
        if self._idle_sync is not None and not self._is_ending:
            sync_ms = self._idle_sync.due_ms(self.lac)
            if sync_ms is not None:
                return sync_ms if due_ms is None else min(due_ms, sync_ms)
        return due_ms

    @property
    def ensemble(self) -> tuple[str, ...]:
        """The bookies that this writer writes to, by slot."""
        return self._slots.bookies

    @property
    def missing(self) -> MissingEntries:
        """What was acknowledged, and bookies will not get from this writer."""
        return self._path.missing

    @property
    def error(self) -> ZbkError | None:
        """What ended the writer, if anything did."""
        return self._error

    # ------------------------------------------------------------------ the door

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Effect]:
        """Handle one event; return what is to be done, in order."""
        effects: list[ev.Effect] = []
        self._effects = effects
        self._now_ms = now_ms
        is_tick = isinstance(event, ev.Tick)
        if isinstance(event, ev.Appends):  # nearly all that come here
            self._on_appends(event.items)
        elif not isinstance(event, ev.Tick):
            self._take_in(event)
        if not self._is_closed:
            self._go_on(is_tick)
        self._check()
        return effects

    def handle_all(self, events: Sequence[ev.Event], now_ms: int) -> list[ev.Effect]:
        """Handle events in order, as ``handle`` does; what follows from acks in a row comes once.

        The answers of bookies to small entries come in twos and threes, and what follows from an
        ack costs more than the ack.
        """
        effects: list[ev.Effect] = []
        self._now_ms = now_ms
        has_acks = False
        for event in events:
            if isinstance(event, ev.AddAnswered):
                self._effects = effects
                self._on_add_answered(event)
                has_acks = True
                continue
            if has_acks:
                self._follow_acks()
                has_acks = False
            effects += self.handle(event, now_ms)
        if has_acks:
            self._follow_acks()
        return effects

    def _follow_acks(self) -> None:
        if not self._is_closed:
            self._go_on(is_tick=False)
        self._check()

    def _take_in(self, event: ev.CallEvent | ev.ConnectionEvent | ev.MetadataEvent) -> None:
        match event:
            case ev.AddAnswered():
                self._on_add_answered(event)
            case ev.AddFailed():
                self._on_add_failed(event)
            case ev.SlotUp():
                self._on_slot_up(event.slot, event.incarnation)
            case ev.SlotDown():
                self._take_down(event.slot, event.error)
            case ev.SyncAnswered():
                self._on_sync_answered(event)
            case ev.SyncFailed():
                self._on_sync_failed(event)
            case ev.LacTaken():
                self._effects += self._explicit_lac.taken(event.slot, event.lac)
            case ev.LacFailed():
                self._effects += self._explicit_lac.failed(event.slot, event.lac)
            case (
                ev.EnsembleChanged()
                | ev.EnsembleChangeTurn()
                | ev.EnsembleChangeFailed()
                | ev.BookiesChanged()
                | ev.MissingReported()
            ):
                self._take_in_metadata(event)
            case _:
                self._take_in_call(event)

    def _take_in_metadata(self, event: ev.MetadataEvent) -> None:
        match event:
            case ev.EnsembleChanged():
                epochs = list(self._slots.epochs)
                self._effects += self._keeper.changed(event, self._now_ms)
                for slot, epoch in enumerate(epochs):
                    if self._slots.epochs[slot] != epoch:
                        self._syncs.replaced(slot, self._slots.error_of(slot))
                        self._explicit_lac.replaced(slot)
                missing = self._path.missing_of_fragments(event.first_entry_id)
                if missing:
                    self._effects.append(ev.ReportMissing(missing))
            case ev.EnsembleChangeTurn():
                self._keeper.change_turn(event, self._now_ms)
            case ev.EnsembleChangeFailed():
                try:
                    self._effects += self._keeper.change_failed(event, self._now_ms)
                except ZbkError as error:
                    self._fail(error)
            case ev.BookiesChanged():
                self._keeper.bookies_changed()
            case ev.MissingReported():
                self._path.missing.reported(event.missing)
            case _:
                assert_never(event)

    def _take_in_call(self, event: ev.CallEvent) -> None:
        match event:
            case ev.Append():
                self._on_appends([(event.ticket, event.payloads)])
            case ev.SyncRequested():
                self._on_sync_requested(event.ticket)
            case ev.CloseRequested():
                self._on_close_requested(event)
            case ev.Abandoned():
                self._on_abandoned(event.error)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ the application calls

    def _on_appends(self, items: Sequence[tuple[ev.Ticket, Sequence[bytes]]]) -> None:
        if self._refusal is not None:
            self._effects.append(ev.Failed([ticket for ticket, _payloads in items], self._refusal))
            return
        self._path.append(items)

    def _on_sync_requested(self, ticket: ev.Ticket) -> None:
        if self._refusal is not None:
            self._effects.append(ev.SyncFailedFor(ticket, self._refusal))
            return
        try:
            self._syncs.request(ticket, self.last_pushed_id)
        except BusyError as error:
            self._effects.append(ev.SyncFailedFor(ticket, error))

    def _on_close_requested(self, event: ev.CloseRequested) -> None:
        ticket = event.ticket
        if isinstance(self._error, LedgerFencedError):
            self._effects.append(ev.CloseFailed(ticket, self._error))
        elif self._close is not None and self._close.ticket == ticket:
            self._close.take_terms(event, self._now_ms)
        elif self._close is not None or self._is_closed:
            self._effects.append(ev.CloseFailed(ticket, LedgerClosedError(self._ledger_id)))
        else:
            self._is_ending = True
            self._close = Closing(
                event, self._limits, self._now_ms, has_sync_cursor=self._level.has_sync_cursor
            )

    def _on_abandoned(self, error: ZbkError) -> None:
        self._fail(error)
        if self._close is not None:
            self._effects.append(ev.CloseFailed(self._close.ticket, error))
        self._end()

    @property
    def _refusal(self) -> ZbkError | None:
        """Why nothing new is taken, if so."""
        if self._error is None and self._is_ending:
            return LedgerClosedError(self._ledger_id)
        return self._error

    # ------------------------------------------------------------------ the connections say

    def _on_add_answered(self, event: ev.AddAnswered) -> None:
        if event.epoch != self._slots.epochs[event.slot]:
            return  # of a bookie that was replaced since
        if self._is_news(event.slot, event.incarnation, event.last_add_synced):
            before_id = self._path.last_acked_id
            self._effects += self._path.answered(event.slot, event.first_entry_id)
            if self._path.last_acked_id > before_id:
                self._keeper.progressed()

    def _on_add_failed(self, event: ev.AddFailed) -> None:
        is_late = event.epoch != self._slots.epochs[event.slot]
        if is_late or not self._path.is_awaited(event.slot, event.first_entry_id):
            return  # of a bookie that was replaced, or a slot that went down since
        # an add makes its ledger known: "no such ledger" is said only of one that was deleted, and
        # after a fresh look. To a sync, which may come before any add, it says nothing
        if isinstance(event.error, (*_FINAL_ERRORS, NoSuchLedgerError)):
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
            self._effects += self._path.resend(slot, self._now_ms, is_revoked=is_revoked)
        if self._close is not None:
            self._close.slot_up(self._now_ms)
        sync_id = self._syncs.slot_up(slot)
        if sync_id is not None:
            epoch = self._slots.epochs[slot]
            self._effects.append(ev.SendSync(slot, sync_id, self.lac, epoch))

    def _on_sync_answered(self, event: ev.SyncAnswered) -> None:
        if event.epoch != self._slots.epochs[event.slot]:
            return  # of a bookie that was replaced since
        if self._is_news(event.slot, event.incarnation, event.last_add_synced):
            self._syncs.answered(event.slot, event.sync_id, event.last_add_synced)

    def _on_sync_failed(self, event: ev.SyncFailed) -> None:
        if event.epoch != self._slots.epochs[event.slot]:
            return
        is_awaited = self._syncs.failed(event.slot, event.sync_id, event.error)
        if is_awaited and isinstance(event.error, _FINAL_ERRORS):
            self._fail(event.error)

    def _is_news(self, slot: int, incarnation: int, last_add_synced: int) -> bool:
        """Record who answers and what it has synced; return whether the answer counts."""
        try:
            if not self._slots.is_answer_valid(slot, incarnation):
                return False
            if last_add_synced != NO_ENTRY:
                self._slots.check_synced(slot, last_add_synced, self._path.last_pushed_id)
        except WireError as error:
            self._suspect(slot, error)
            return False
        self._path.synced(slot, incarnation, last_add_synced)
        return True

    def _suspect(self, slot: int, error: ZbkError) -> None:
        self._take_down(slot, error)
        self._effects.append(ev.SlotSuspect(slot, error))

    def _take_down(self, slot: int, error: ZbkError | None = None) -> None:
        self._slots.go_down(slot, error)
        self._path.lost(slot)
        self._syncs.slot_down(slot, self._slots.error_of(slot))
        self._effects += self._explicit_lac.slot_down(slot)

    # ------------------------------------------------------------------ what follows

    def _go_on(self, is_tick: bool) -> None:
        self._is_calm = self._is_undisturbed
        if self._is_calm and not is_tick:
            self._send_on()
            return
        if self._error is None:
            try:
                if self._keeper.is_seeking:
                    self._drive_syncs()  # what bookies said may end a round
                if is_tick or self._slots.down or self._keeper.is_seeking:
                    self._watch_bookies(is_tick)
                self._effects += self._path.send_batches(self._slots.live, self._now_ms)
                if self._slots.down:
                    self._keeper.watch_quorum(self._now_ms)
                self._watch_unsynced()
            except ZbkError as error:
                self._fail(error)
        self._drive_syncs()
        if self._close is not None:
            self._drive_close(self._close)
        elif self._path.is_flushed:
            self._note_idle()

    def _note_idle(self) -> None:
        self._explicit_lac.idle(self.lac, self._now_ms)
        if self._idle_sync is not None:
            self._idle_sync.idle(self.last_acked_id, self._now_ms)

    def _send_on(self) -> None:
        if self._path.is_held_up:
            self._effects += self._path.send_batches(self._slots.live, self._now_ms)
        if self._path.is_flushed:
            self._note_idle()

    @property
    def _is_undisturbed(self) -> bool:
        """True while there is nothing to watch: most events come then, and cost the least."""
        return (
            not self._slots.down
            and self._error is None
            and self._close is None
            and self._syncs.is_idle
            and self._keeper.is_idle
            and not self._is_unsynced_watched
            and self._path.unsynced_batch_count * 2 < self._limits.unsynced_batch_count_max
        )

    def _watch_bookies(self, is_tick: bool) -> None:
        """Look whether other bookies are needed, and whether these have heard the LAC.

        Raises:
            ZbkError: others are needed, and cannot be had.
        """
        is_flushed = self._path.is_flushed
        if is_tick:
            self._effects += self._keeper.watch_slow(self._now_ms)
            if is_flushed and self._close is None:
                self._effects += self._explicit_lac.tick(
                    self.lac, self._path.pushed_lac, self._slots.live, self._now_ms
                )
                self._demand_idle_sync()
        is_flushed_for_good = is_flushed and self._is_ending
        self._effects += self._keeper.watch(self._now_ms, is_flushed_for_good=is_flushed_for_good)

    def _demand_idle_sync(self) -> None:
        if self._idle_sync is None or self._is_ending:
            return
        if self._idle_sync.is_due(self.lac, self._now_ms):
            self._syncs.demand()

    def _watch_unsynced(self) -> None:
        limit, count = self._limits.unsynced_batch_count_max, self._path.unsynced_batch_count
        self._is_unsynced_watched = count * 2 >= limit
        is_stuck = count >= limit and self._unsynced_grace.is_over(self._now_ms)
        if not is_stuck:
            self._is_last_sync = False
        if count < limit:
            self._unsynced_grace.reset()
        if self._syncs.has_round:
            return
        is_due = count * 2 >= limit and self._now_ms >= self._self_sync_at_ms
        if is_due and not self._is_last_sync:
            self._syncs.demand()
            self._self_sync_at_ms = self._now_ms + SELF_SYNC_INTERVAL_MS
            self._is_last_sync = is_stuck
        elif is_stuck:
            reason = f"{limit} acknowledged batches are not durable: {self._slots.why_down()}"
            raise CannotAdvanceError(self._ledger_id, self.lac, self.last_acked_id, reason)

    def _drive_syncs(self) -> None:
        if self._syncs.is_idle:
            return
        close = self._close
        may_wait = self._error is None if close is None else close.may_wait(self._now_ms)
        for effect in self._syncs.drive(
            self.lac, self.last_acked_id, self._slots, self._now_ms, may_wait=may_wait
        ):
            if isinstance(effect, ev.SyncDone):
                self._effects += self._explicit_lac.publish(effect, self._slots.live, self._now_ms)
            else:
                self._effects.append(effect)

    # ------------------------------------------------------------------ the end

    def _drive_close(self, close: Closing) -> None:
        if self._keeper.is_pending:
            return
        is_lost = isinstance(self._error, _LOST_ERRORS) and not close.drops_nothing(self._path)
        if self._error is not None and is_lost and not close.accepts_loss:
            self._leave_open(close.ticket, self._error)
            return
        if close.wants_sync(self._path, self._syncs, self._now_ms):
            self._syncs.request(None, self.last_acked_id)
            self._drive_syncs()
        phase = close.proceed(self._path, self._syncs, self._now_ms)
        if phase is ClosePhase.STUCK:
            self._leave_open(close.ticket, self._why_open())
        elif phase is ClosePhase.LINGER and close.is_lingering_over(self._path, self._now_ms):
            self._close_ledger(close.ticket)

    def _leave_open(self, ticket: ev.Ticket, error: ZbkError) -> None:
        """Give up to close the ledger: it is left to another close, or to recovery."""
        self._close = None
        self._effects.append(ev.CloseFailed(ticket, error))

    def _why_open(self) -> NotDurableError:
        path = self._path
        is_durable = path.lac >= path.last_acked_id
        return NotDurableError(
            self._ledger_id,
            path.lac,
            path.last_acked_id,
            "" if is_durable else self._syncs.last_failure,
            path.last_pushed_id,
        )

    def _close_ledger(self, ticket: ev.Ticket) -> None:
        self._effects += self._explicit_lac.give_up()
        missing = self._path.missing_of_closed(self.lac)
        self._effects.append(ev.CloseLedger(ticket, self.lac, self.length, missing))
        self._end()

    def _end(self) -> None:
        self._effects += self._explicit_lac.give_up()
        self._path.drain()
        self._close = None
        self._is_ending = self._is_closed = True

    def _fail(self, error: ZbkError) -> None:
        is_fenced = isinstance(error, LedgerFencedError)
        if self._error is None or is_fenced:  # being fenced outweighs whatever came before
            self._error = error
        self._keeper.cancel()
        tickets = self._path.drain()
        if tickets:
            self._effects.append(ev.Failed(tickets, self._in_doubt(error)))
        self._effects += self._syncs.fail_all(error)
        self._effects += self._explicit_lac.give_up()
        if self._close is not None and is_fenced:
            self._effects.append(ev.CloseFailed(self._close.ticket, error))
            self._close = None

    def _in_doubt(self, error: ZbkError) -> ZbkError:
        """Return the error of appends that bookies may have, if the writer ends with ``error``."""
        if error.outcome == "unknown":
            return error
        if isinstance(error, LedgerClosedError):
            return LedgerFencedError(self._ledger_id)
        return AppendUnansweredError(self._ledger_id, str(error))

    def _check(self) -> None:
        self._path.check()
        if self._error is not None or self._is_closed:
            assert not self._keeper.is_pending, "after the end nothing is asked for"
            assert self._path.is_answered, "after the end nothing waits"
