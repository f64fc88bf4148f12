"""The handling of answers and news from a writer's bookies.

Restart     a bookie that comes back with a higher incarnation has, on a VD ledger, lost its acks
            of pending batches and its ``LastAddSynced``. It is sent again all entries beyond the
            LAC.
Hole        a sync covers the entries that were sent before it. A bookie that answered them, and
            whose ``LastAddSynced`` does not reach them, is sent them again, and the sync after.
Late        answers of an earlier incarnation, of a slot that went down, of a bookie that was
            replaced, or to a batch that is not awaited any more, change nothing.
Failure     LedgerFenced, Unauthorized and LedgerClosed end the writer at once: the methods raise
            them. Any other error makes the slot suspect.
"""

from collections.abc import Sequence
from typing import assert_never

from zbk.errors import NoSuchLedgerError, WireError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.write.closing import FINAL_ERRORS
from zbk.protocol.write.ensemble_keeper import EnsembleKeeper
from zbk.protocol.write.events import (
    AddAnswered,
    AddFailed,
    AnswerEvent,
    Effect,
    EnsembleChanged,
    LacFailed,
    LacTaken,
    ReportMissing,
    SendSync,
    SlotDown,
    SlotSuspect,
    SlotUp,
    SyncAnswered,
    SyncFailed,
)
from zbk.protocol.write.explicit_lac import ExplicitLac
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.unsynced_limit import UnsyncedLimit
from zbk.protocol.write.write_path import WritePath


class BookieAnswers:
    """Passes answers and news of bookies to the parts of one writer."""

    __slots__ = (
        "_explicit_lac", "_filled", "_keeper", "_path", "_slots", "_syncs", "_unsynced",
    )  # fmt: skip

    def __init__(
        self,
        slots: WriterSlots,
        path: WritePath,
        syncs: SyncRounds,
        explicit_lac: ExplicitLac,
        keeper: EnsembleKeeper,
        unsynced: UnsyncedLimit,
    ) -> None:
        self._slots = slots
        self._path = path
        self._syncs = syncs
        self._explicit_lac = explicit_lac
        self._keeper = keeper
        self._unsynced = unsynced
        self._filled: dict[int, int] = {}  # by slot: its cursor when it was sent a hole's entries

    def take(  # noqa: PLR0911 - one for each event
        self, event: AnswerEvent
    ) -> Sequence[Effect]:
        """Record an answer, a failure or the loss of a connection.

        Raises:
            ZbkError: it ends the writer.
        """
        match event:
            case AddAnswered():
                return self.add_answered(event)
            case AddFailed():
                return self.add_failed(event)
            case SlotDown():
                return self.take_down(event.slot, event.error)
            case SyncAnswered():
                return self.sync_answered(event)
            case SyncFailed():
                self.sync_failed(event)
                return ()
            case LacTaken():
                is_late = event.epoch != self._slots.epochs[event.slot]
                return () if is_late else self._explicit_lac.taken(event.slot, event.lac)
            case LacFailed():
                is_late = event.epoch != self._slots.epochs[event.slot]
                return () if is_late else self._explicit_lac.failed(event.slot, event.lac)
            case _:
                assert_never(event)

    def add_answered(self, event: AddAnswered) -> Sequence[Effect]:
        """Record that a bookie has a batch."""
        slot, slots = event.slot, self._slots
        if event.epoch != slots.epochs[slot]:
            return ()  # of a bookie that was replaced since
        # most answers say nothing new of the bookie: they come from the life that is known
        if event.last_add_synced != NO_ENTRY or event.incarnation != slots.incarnations[slot]:
            suspect = self._check(slot, event.incarnation, event.last_add_synced)
            if suspect is not None:
                return suspect
        effects = self._path.answered(slot, event.first_entry_id)
        if effects is None:
            return ()
        self._keeper.progressed()
        return effects

    def add_failed(self, event: AddFailed) -> list[Effect]:
        """Handle the failure of an add.

        Raises:
            ZbkError: it ends the writer.
        """
        is_late = event.epoch != self._slots.epochs[event.slot]
        if is_late or not self._path.is_awaited(event.slot, event.first_entry_id):
            return []  # of a bookie that was replaced, or a slot that went down since
        # an add creates its ledger at the bookie, so "no such ledger" means that it was deleted; in
        # answer to a sync, which may come before any add, it means nothing
        if isinstance(event.error, (*FINAL_ERRORS, NoSuchLedgerError)):
            raise event.error
        return self._suspect(event.slot, event.error)

    def slot_up(self, event: SlotUp, now_ms: int, *, resends: bool, revokes: bool) -> list[Effect]:
        """Record a connection to a slot's bookie, and send it the batches that it is owed.

        ``resends``: the writer still sends; ``revokes``: a restart of a bookie voids its acks.
        """
        slot, incarnation = event.slot, event.incarnation
        effects = self.take_down(slot)  # the connection before it brings no more answers
        self._filled.pop(slot, None)
        try:
            is_restart = self._slots.up(slot, incarnation)
        except WireError as error:
            return effects + self._suspect(slot, error)
        self._path.synced(slot, incarnation, NO_ENTRY)
        if resends:
            effects += self._path.resend(slot, now_ms, is_revoked=is_restart and revokes)
        sync_id = self._syncs.slot_up(slot)
        if sync_id is not None:
            effects.append(SendSync(slot, sync_id, self._path.lac, self._slots.epochs[slot]))
        return effects

    def sync_answered(self, event: SyncAnswered) -> list[Effect]:
        """Record that a bookie has synced."""
        if event.epoch != self._slots.epochs[event.slot]:
            return []  # of a bookie that was replaced since
        suspect = self._check(event.slot, event.incarnation, event.last_add_synced)
        if suspect is not None:
            return suspect
        effects = self._fill_hole(event)
        if not effects:
            self._syncs.answered(event.slot, event.sync_id, event.last_add_synced)
        return effects

    def _fill_hole(self, event: SyncAnswered) -> list[Effect]:
        """Return what a bookie is sent again that answered adds and has not synced them.

        The sync comes after the adds. A bookie whose answer stays the same is not asked again.
        """
        slot, last_add_synced = event.slot, event.last_add_synced
        target_id = self._syncs.target_of(event.sync_id)
        if target_id is None or self._filled.get(slot) == last_add_synced:
            return []
        last = self._path.answered_until(slot, target_id)
        effects = self._path.resend_hole(slot, last_add_synced + 1, last)
        if effects:
            self._filled[slot] = last_add_synced
            sync_id, lac = event.sync_id, self._path.lac
            effects.append(SendSync(slot, sync_id, lac, self._slots.epochs[slot]))
        return effects

    def sync_failed(self, event: SyncFailed) -> None:
        """Handle the failure of a sync.

        Raises:
            ZbkError: it ends the writer.
        """
        if event.epoch != self._slots.epochs[event.slot]:
            return
        is_awaited = self._syncs.failed(event.slot, event.sync_id, event.error)
        if is_awaited and isinstance(event.error, FINAL_ERRORS):
            raise event.error

    def take_down(self, slot: int, error: ZbkError | None = None) -> list[Effect]:
        """Record that a slot's connection is lost, with its error if that is known."""
        self._slots.go_down(slot, error)
        self._path.lost(slot)
        self._syncs.slot_down(slot, self._slots.error_of(slot))
        return self._explicit_lac.slot_down(slot)

    def ensemble_changed(self, event: EnsembleChanged, now_ms: int) -> list[Effect]:
        """Adopt the ensemble in the metadata; report what ended fragments lack."""
        epochs = list(self._slots.epochs)
        effects = self._keeper.changed(event, now_ms)
        for slot, epoch in enumerate(epochs):
            if self._slots.epochs[slot] != epoch:
                effects += self._explicit_lac.replaced(slot)
                self._filled.pop(slot, None)
        if self._slots.epochs != epochs:
            self._syncs.ensemble_changed()
            self._unsynced.ensemble_changed()
        missing = self._path.missing_of_fragments(event.first_entry_id)
        return [*effects, ReportMissing(missing)] if missing else effects

    def _check(self, slot: int, incarnation: int, last_add_synced: int) -> list[Effect] | None:
        """Record what a bookie has synced; return ``None`` if its answer counts.

        Otherwise return the effects: none if the answer is late, a suspect slot if it is wrong.
        """
        try:
            if not self._slots.is_answer_valid(slot, incarnation):
                return []
            if last_add_synced != NO_ENTRY:
                self._slots.check_synced(slot, last_add_synced, self._path.last_pushed_id)
        except WireError as error:
            return self._suspect(slot, error)
        self._path.synced(slot, incarnation, last_add_synced)
        return None

    def _suspect(self, slot: int, error: ZbkError) -> list[Effect]:
        return [*self.take_down(slot, error), SlotSuspect(slot, error)]
