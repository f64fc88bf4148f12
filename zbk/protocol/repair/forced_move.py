"""The removal of a bookie from one ledger although entries are lost with it for good.

Slot after slot, in closed fragments:

    survey    each registered bookie of the fragment is asked what it holds
    copy      the due entries that one of them holds are copied to a target; entries that turn out
              to be damaged there are lost, too
    replace   the target replaces the bookie in the metadata, only if every lost entry is among
              those that the caller has ``confirmed``

Without ``confirmed`` the procedure does not change the metadata: its result is the statement of
losses that an operator confirms. The metadata keep all other bookies of a fragment, so an entry
that a bookie which is away has is not dropped: it is readable when that bookie returns. The end of
the ledger stays, so that reads of lost entries fail and are not taken for the end.

A procedure (``zbk.protocol.procedure``). It refuses a ledger whose end is not known, and one for
which another attempt may succeed, because a source does not answer or there is no target.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.errors import NoSuchLedgerError, NotEnoughBookiesError, ZbkError
from zbk.protocol.entry.spans import Span, merged, overlaps
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.procedure import Procedure, Steps
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries, due_count, missing_spans
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.ledger_view import FragmentSlot, LedgerView
from zbk.protocol.repair.repair_effects import (
    ChooseTarget,
    CopyFragment,
    LedgerSeen,
    LookAtLedger,
    RepairAim,
    RepairEffect,
    ReplaceBookie,
    TargetChosen,
)
from zbk.protocol.repair.source_survey import survey_sources


class ForcedMoveResult(msgspec.Struct, frozen=True, kw_only=True):
    """The losses, by ascending id, or a refusal; the metadata may have changed in part then."""

    lost: tuple[LostEntries, ...] = ()
    refusal: str = ""


class ForcedMove(Procedure[RepairEffect, ForcedMoveResult]):
    """One removal of a bookie from one ledger. ``aim`` names it as the bookie to leave."""

    def __init__(self, aim: RepairAim, confirmed: Sequence[LostEntries] | None = None) -> None:
        super().__init__(self._run_all())
        (self._bookie_id,) = aim.to_leave
        self._aim = aim
        self._confirmed: list[Span] | None = None
        if confirmed is not None:
            self._confirmed = merged((one.first_entry_id, one.last_entry_id) for one in confirmed)
        self._lost: list[LostEntries] = []

    def _run_all(self) -> Steps[RepairEffect, ForcedMoveResult]:
        refusal = ""
        try:
            seen: LedgerSeen = yield LookAtLedger()
            refusal = yield from self._remove(LedgerView(seen.metadata, seen.registered, self._aim))
        except NoSuchLedgerError:  # nothing of it is lost
            return ForcedMoveResult()
        except ZbkError as error:
            refusal = str(error)
        return ForcedMoveResult(lost=tuple(self._lost), refusal=refusal)

    def _remove(self, view: LedgerView) -> Steps[RepairEffect, str]:
        """Remove the bookie from every fragment; return why not, if so."""
        if self._bookie_id in view.registered:
            return "the bookie is running"
        if not view.is_readable:
            return "it needs its password"
        fragment = view.open_fragment
        if fragment is not None and self._bookie_id in fragment.bookies:
            return _NOT_CLOSED
        for one in view.closed_slots():
            if one.bookie_id == self._bookie_id:
                refusal = yield from self._remove_from(view, one)
                if refusal:
                    return refusal
        return ""

    def _remove_from(self, view: LedgerView, one: FragmentSlot) -> Steps[RepairEffect, str]:
        wanted = ChooseTarget(view.fragment(one).bookies, one.slot, self._aim.to_leave, view.needs)
        chosen: TargetChosen = yield wanted
        if chosen.bookie_id is None:
            what = f"to take the place of {one.bookie_id} in ledger {self._aim.ledger_id}"
            raise NotEnoughBookiesError(1, 0, what)
        first, last = view.span(one)
        lost: list[LostEntries] = []
        if first <= last:
            order = view.copy_order(one, chosen.bookie_id, ((first, last),))
            lost, refusal = yield from self._copy_held(order, _reason(view, one))
            if refusal:
                return refusal
        self._lost += lost
        if self._confirmed is None:
            return ""
        new = _unconfirmed(view.metadata.quorum, one.slot, lost, self._confirmed)
        if new is not None:
            return f"more is lost than was confirmed: {new}"
        yield ReplaceBookie(first, one.slot, one.bookie_id, chosen.bookie_id)
        return ""

    def _copy_held(
        self, order: CopyOrder, reason: str
    ) -> Steps[RepairEffect, tuple[list[LostEntries], str]]:
        """Copy the entries that a source holds; return the lost ones, or a refusal."""
        quorum, slot = order.metadata.quorum, order.slot
        survey = yield from survey_sources(order)
        lost = [
            LostEntries(one.first_entry_id, one.last_entry_id, one.count, reason)
            for one in survey.lost()
        ]
        held = overlaps(order.spans, survey.held)
        spans = tuple(span for span in held if due_count(quorum, slot, *span))
        while spans:
            copied: CopyResult = yield CopyFragment(msgspec.structs.replace(order, spans=spans))
            if copied.is_whole:
                break
            error = copied.source_error or copied.target_error
            if error is not None or copied.is_stopped:
                return [], str(error or "it was stopped")
            found = [_exact(quorum, slot, one) for one in copied.lost]
            lost += found
            gone = merged((one.first_entry_id, one.last_entry_id) for one in found)
            spans = tuple(
                left for span in spans for left in missing_spans(quorum, slot, span, gone)
            )
        return sorted(lost, key=lambda one: one.first_entry_id), ""


def _exact(quorum: Quorum, slot: int, one: LostEntries) -> LostEntries:
    """Return a loss, or the first entry of one that covers other entries: many are merged."""
    first = one.first_entry_id
    is_exact = one.count == due_count(quorum, slot, first, one.last_entry_id)
    return one if is_exact else LostEntries(first, first, 1, one.reason)


def _reason(view: LedgerView, one: FragmentSlot) -> str:
    away = sorted({*view.fragment(one).bookies} - view.registered - {one.bookie_id})
    if not away:
        return "no bookie has a replica"
    return f"no available bookie has a replica; {', '.join(away)} may have, and stays named"


def _unconfirmed(
    quorum: Quorum, slot: int, lost: Sequence[LostEntries], confirmed: Sequence[Span]
) -> LostEntries | None:
    """Return the first loss that is not confirmed."""
    for one in lost:
        span = (one.first_entry_id, one.last_entry_id)
        if missing_spans(quorum, slot, span, confirmed):
            return one
    return None


_NOT_CLOSED: Final = (
    "it is not closed, and its end may not be known without the bookie; close it with "
    "`zbk ledger recover`, or delete it"
)
