"""The writer of one ledger: batches out, acks in, answers to the application.

``WriterCore`` is a pure state machine: ``handle(event, now_ms)`` returns the effects. It holds no
socket, thread or clock; an actor of the client is its body. Events and effects are in ``events``.

Batches     form of what queued while the window was full; a lone append leaves at once. A batch
            counts against the window until an ack quorum has acknowledged it *and* every live slot
            has answered it: a slow bookie slows the writer down.
Slots       start down. A slot that is down is owed every batch that it has not answered, also
            those that were acknowledged without it, and gets them when it comes up. It delays
            nothing: what does not fit into the backlog is given up, and *missing*.
Bookies     their answers, failures and restarts are handled in ``bookie_answers``. When pending
            entries cannot reach an ack quorum for ``quorum_grace_ms`` without progress, the writer
            ends with NotEnoughBookies.
Ensemble    a slot that failed, or is slow, gets another bookie (``ensemble_keeper``), which on VD
            ledgers first receives what is acknowledged and not durable (``catch_up``).
Missing     entries that a bookie will not get from this writer are reported to autorecovery:
            those of a fragment that a change of the ensemble ends, after the change; the rest with
            the close. After the death of a writer the recovery has all bookies compared.
LAC         as the ledger's level defines it, moved to ends of acknowledged batches only. An idle
            writer sends it to its bookies (``explicit_lac``).
Sync        ``sync_rounds``; answered after the LAC was sent, too (``explicit_lac``). A VD writer
            also syncs by itself when it is idle (``idle_sync``), when many acknowledged batches
            are not durable (``unsynced_limit``), and while calls wait for that (``durable_waits``).
Close       takes no more appends; finishes everything pending; syncs a VD ledger, repeatedly while
            the caller waits; gives stragglers of live slots, and new bookies that are being
            connected, ``close_linger_ms``; then closes the ledger at its LAC (``closing``). So
            also after an error, except LedgerFenced: then a recovery finds the ledger's end.
Outcome     the error of an append that may be in the ledger has the outcome "unknown".

Source: "The BookKeeper protocol", sections Writing to ledgers, Closing a ledger as a writer;
BookKeeper's ``LedgerHandle`` and ``PendingAddOp``; the relaxed-durability proposal.
"""

from collections.abc import Sequence

from zbk.errors import LedgerClosedError, LedgerFencedError, ZbkError
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write import events as ev
from zbk.protocol.write.batch_encoder import BatchEncoder
from zbk.protocol.write.closing import ClosePhase, Closing, in_doubt, not_durable
from zbk.protocol.write.core_parts import VolatileTerms, parts_of_writer
from zbk.protocol.write.idle import earliest
from zbk.protocol.write.lac_policy import WriterLevel, cursor_stripes
from zbk.protocol.write.limits import WriterLimits


class WriterCore:
    """One ledger's writer.

    ``ensemble`` holds the bookie ids by slot, for the text of errors.

    Invariants, checked in ``_check`` (and in ``WritePath.check``):
      * LAC <= last acked <= last pushed <= last appended;
      * after an error, or the close, nothing is queued or pending.
    """

    __slots__ = (
        "_answers", "_close", "_effects", "_idle", "_is_calm",
        "_is_closed", "_is_ending", "_keeper", "_ledger_id", "_level", "_limits", "_now_ms",
        "_sync_answers", "_syncs", "_unsynced", "error", "path", "slots", "stripes",
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
        limits: WriterLimits | None = None,
        volatile: VolatileTerms | None = None,
    ) -> None:
        """Make a writer of an empty ledger."""
        assert len(ensemble) == quorum.ensemble_size, "a bookie a slot"
        self._ledger_id = ledger_id
        self._level = level
        self.stripes = cursor_stripes(quorum, level)
        self._limits = limits or WriterLimits()
        encoder = BatchEncoder(ledger_id, quorum, digest_type, digest)
        volatile = volatile or VolatileTerms()
        parts = parts_of_writer(quorum, level, ensemble, encoder, self._limits, volatile)
        self.slots = parts.slots
        self.path = parts.path
        self._syncs = parts.syncs
        self._idle = parts.idle
        self._keeper = parts.keeper
        self._answers = parts.answers
        self._unsynced = parts.unsynced
        self._sync_answers = parts.sync_answers
        self._is_calm = False  # as ``_is_undisturbed`` was after the last event
        self.error: ZbkError | None = None
        self._close: Closing | None = None
        self._is_ending = False  # a close was asked for, whatever came of it
        self._is_closed = False
        self._now_ms = 0
        self._effects: list[ev.Effect] = []

    # ------------------------------------------------------------------ what the body may read

    @property
    def is_watching(self) -> bool:
        """True while a period of grace or patience runs, so that ``Tick`` is needed often.

        Entries on their way to live bookies need none: their answers, and time-outs, are events.
        A call from another thread may return the state of a moment ago.
        """
        if self._is_closed:
            return False
        if self._is_calm:
            return bool(self.path.waiting)
        return bool(
            self.slots.down
            or self._close is not None
            or not self._syncs.is_idle
            or self.path.is_held_up
            or self._keeper.is_pending
            or self._unsynced.is_near
        )

    @property
    def next_tick_ms(self) -> int | None:
        """When a ``Tick`` is needed, if nothing happens before, beside those of ``is_watching``."""
        path = self.path
        if path.unacked or path.waiting or self.error is not None:
            return None
        if self._is_closed or self._close is not None:
            return None
        return earliest(self._idle.due_ms(is_ending=self._is_ending), self._unsynced.due_ms)

    # ------------------------------------------------------------------ the door

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Effect]:
        """Handle one event; return what is to be done, in order."""
        effects: list[ev.Effect] = []
        self._effects, self._now_ms = effects, now_ms
        if isinstance(event, ev.Appends):  # nearly all that come here
            self._on_appends(event.items)
            self._follow_routine(effects)
            return effects
        is_tick = isinstance(event, ev.Tick)
        if not isinstance(event, ev.Tick):
            try:
                self._effects += self._take_in(event)
            except ZbkError as error:
                self._fail(error)
        if not self._is_closed:
            self._is_calm = self._is_undisturbed
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
                effects += self._answers.add_answered(event)
                has_acks = True
                continue
            if has_acks:
                self._follow_routine(effects)
                has_acks = False
            effects += self.handle(event, now_ms)
        if has_acks:
            self._follow_routine(effects)
        return effects

    def _follow_routine(self, effects: list[ev.Effect]) -> None:
        """Do what follows from acks, or from appends: they leave most of the state as it was.

        So a writer that was undisturbed before them is, unless an answer took a slot down, or too
        many entries wait to be durable.
        """
        self._effects = effects
        if not self._is_closed:
            wants_sync = self.path.beyond and self._unsynced.wants_sync(self._now_ms)
            if not self._is_calm or self.slots.down or wants_sync:
                self._is_calm = self._is_undisturbed
            self._go_on(is_tick=False)
        self._check()

    def _take_in(  # noqa: C901 - one case for each event
        self, event: ev.CallEvent | ev.ConnectionEvent | ev.MetadataEvent
    ) -> Sequence[ev.Effect]:
        """Return the effects of an event.

        Raises:
            ZbkError: the event ends the writer.
        """
        match event:
            case ev.SlotUp():
                return self._on_slot_up(event)
            case ev.EnsembleChanged():
                return self._answers.ensemble_changed(event, self._now_ms)
            case ev.EnsembleChangeTurn():
                self._keeper.change_turn(event, self._now_ms)
            case ev.EnsembleChangeFailed():
                return self._keeper.change_failed(event, self._now_ms)
            case ev.BookiesChanged():
                self._keeper.bookies_changed()
            case ev.MissingReported():
                self.path.missing.reported(event.missing)
            case ev.Append():
                self._on_appends([(event.ticket, event.payloads)])
            case ev.SyncRequested():
                return self._sync_answers.request(event.ticket, self._refusal)
            case ev.DurableRequested():
                self._on_durable_requested(event)
            case ev.CloseRequested():
                self._on_close_requested(event)
            case ev.Abandoned():
                self._on_abandoned(event.error)
            case _:
                return self._answers.take(event)
        return ()

    def _on_slot_up(self, event: ev.SlotUp) -> list[ev.Effect]:
        effects = self._answers.slot_up(
            event,
            self._now_ms,
            resends=self.error is None and not self._is_closed,
            revokes=self._level.restart_revokes_acks,
        )
        if self._close is not None and event.slot in self.slots.live:
            self._close.slot_up(self._now_ms)
        return effects

    # ------------------------------------------------------------------ the application calls

    def _on_appends(self, items: Sequence[tuple[ev.Ticket, Sequence[bytes]]]) -> None:
        if self._refusal is not None:
            self._effects.append(ev.Failed([ticket for ticket, _payloads in items], self._refusal))
            return
        self.path.append(items)

    def _on_durable_requested(self, event: ev.DurableRequested) -> None:
        answers = self._sync_answers
        self._effects += answers.wait_for(event.ticket, event.entry_id)
        if self.error is not None:
            self._effects += answers.fail_waits(in_doubt(self._ledger_id, self.error))
        elif self._is_closed:
            self._effects += answers.fail_waits(LedgerClosedError(self._ledger_id, self.path.lac))

    def _on_close_requested(self, event: ev.CloseRequested) -> None:
        ticket = event.ticket
        if isinstance(self.error, LedgerFencedError):
            self._effects.append(ev.CloseFailed(ticket, self.error))
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
        if self.error is None and self._is_ending:
            return LedgerClosedError(self._ledger_id)
        return self.error

    # ------------------------------------------------------------------ what follows

    def _go_on(self, is_tick: bool) -> None:  # noqa: C901 - all that may follow, in order
        path = self.path
        if self._is_calm and not is_tick:
            if path.waiting:
                self._effects += path.send_batches(self.slots.live, self._now_ms)
            if not (path.waiting or path.unacked):
                self._idle.note(self._now_ms)
            return
        if self.error is None:
            try:
                if is_tick or self.slots.down:
                    self._watch_bookies(is_tick)
                self._effects += self.path.send_batches(self.slots.live, self._now_ms)
                if self.slots.down:
                    self._keeper.watch_quorum(self._now_ms)
                if not self._keeper.is_pending:  # else the LAC rests
                    close, now_ms = self._close, self._now_ms
                    is_hurried = close is not None and close.gives_up(path, now_ms)
                    self._unsynced.watch(now_ms, is_hurried=is_hurried)
            except ZbkError as error:
                self._fail(error)
        self._drive_syncs()
        if self._close is not None:
            self._drive_close(self._close)
        elif self.path.is_flushed:
            self._idle.note(self._now_ms)

    @property
    def _is_undisturbed(self) -> bool:
        """True while there is nothing to watch: most events come then, and cost the least."""
        return (
            not self.slots.down
            and self.error is None
            and self._close is None
            and self._sync_answers.is_idle
            and not self._keeper.is_pending
            and not self._unsynced.is_watched
            and not self._unsynced.wants_sync(self._now_ms)
        )

    def _watch_bookies(self, is_tick: bool) -> None:
        """Look whether other bookies are needed, and whether these have heard the LAC.

        Raises:
            ZbkError: others are needed, and cannot be had.
        """
        is_flushed = self.path.is_flushed
        if is_tick:
            self._effects += self._keeper.watch_slow(self._now_ms)
            if is_flushed and self._close is None:
                self._effects += self._idle.tick(self._now_ms, is_ending=self._is_ending)
        is_flushed_for_good = is_flushed and self._is_ending
        self._effects += self._keeper.watch(self._now_ms, is_flushed_for_good=is_flushed_for_good)

    def _drive_syncs(self) -> None:
        if self._sync_answers.is_idle:
            return
        close, now_ms = self._close, self._now_ms
        may_wait = self.error is None if close is None else close.may_wait(now_ms)
        is_held = self._keeper.is_pending
        self._effects += self._sync_answers.drive(now_ms, may_wait=may_wait, is_held=is_held)

    def _drive_close(self, close: Closing) -> None:
        if self._keeper.is_pending:
            return
        if self.error is not None and close.is_barred(self.error, self.path):
            self._leave_open(close.ticket, self.error)
            return
        if close.wants_sync(self.path, self._syncs, self._now_ms):
            self._syncs.request(None, self.path.last_acked_id)
            self._drive_syncs()
        phase = close.proceed(self.path, self._syncs, self._now_ms)
        if phase is ClosePhase.STUCK:
            self._leave_open(close.ticket, not_durable(self._ledger_id, self.path, self._syncs))
        elif phase is ClosePhase.LINGER and close.is_lingering_over(self.path, self._now_ms):
            self._close_ledger(close.ticket)

    def _leave_open(self, ticket: ev.Ticket, error: ZbkError) -> None:
        """Leave the ledger open, to another close or to recovery."""
        self._close = None
        self._effects.append(ev.CloseFailed(ticket, error))

    def _close_ledger(self, ticket: ev.Ticket) -> None:
        path = self.path
        missing = path.missing_of_closed(path.lac)
        self._end()
        self._effects.append(ev.CloseLedger(ticket, path.lac, path.length, missing))

    def _end(self) -> None:
        closed = LedgerClosedError(self._ledger_id, self.path.lac)
        self._effects += self._sync_answers.end(closed)
        self.path.hold()  # what bookies report from now on is beyond the end of the ledger
        self.path.drain()
        self._close = None
        self._is_ending = self._is_closed = True

    def _fail(self, error: ZbkError) -> None:
        is_fenced = isinstance(error, LedgerFencedError)
        if self.error is None or is_fenced:  # being fenced outweighs whatever came before
            self.error = error
        self._keeper.cancel()
        tickets = self.path.drain()
        if tickets:
            self._effects.append(ev.Failed(tickets, in_doubt(self._ledger_id, error)))
        self._effects += self._sync_answers.fail_all(error, in_doubt(self._ledger_id, error))
        if self._close is not None and is_fenced:
            self._effects.append(ev.CloseFailed(self._close.ticket, error))
            self._close = None

    def _check(self) -> None:
        self.path.check()
        if self._is_closed or self.error is not None:
            assert not self._keeper.is_pending, "after the end nothing is asked for"
            assert self.path.is_answered, "after the end nothing waits"
