"""The repair of one ledger.

A *bad slot* is a slot of one fragment whose bookie is lost, is to leave, or lacks entries that are
due on it. Fragments are repaired in order, their slots in order:

    a closed fragment    its end is known: the ledger is closed, or another fragment follows
      lost, to leave     a target is chosen, the due entries are copied to it and confirmed, then
                         the metadata name it instead, by compare-and-swap: at every moment the
                         metadata name at least as many replicas as before. Without a target,
                         damaged replicas are mended in place: all due entries are copied to the
                         bookie itself, which stores those that it cannot read
      lacks entries      the missing entries are copied to the bookie itself. If it is only to be
                         compared, and is away, the repair waits for it: another repair follows when
                         it returns
    an open fragment     the last one of a ledger that is being written or recovered. Nothing is
                         copied: its writer may still replace the lost bookie, and has ``grace_ms``
                         to begin another fragment. If the fragment is the same then, the ledger is
                         fenced and recovered, which closes it. It is not fenced before a target is
                         known, because fencing would stop the writer without any gain; nor if the
                         remaining bookies do not cover the ensemble, because the recovery would
                         fail; nor for a running bookie that is to leave, which leaves after the
                         writer is done

Then the repair looks at the ledger again, until nothing is left to do. One repair tries each slot
once; its result names the slots that it could not repair.

Sources are the registered bookies of the fragment. Entries that none of them holds are *lost*, even
if one of them is in limbo and does not know whether it had them: waiting does not bring them back
(``source_survey``). Their slot keeps its bookie, which may return. In a closed ledger the fragment
is *cut* around them, so that its other parts are repaired. A repair never guesses whether fewer
replicas are left than were promised: entries that cannot be verified need the ledger's password
(``blocked``).

A fragment without entries only gets another bookie in the metadata.

A procedure (``zbk.protocol.procedure``); its effects are in ``repair_effects``. Invariants:
  * a bookie is replaced only after a whole copy of the same slot to the same target, or if nothing
    was due on the slot;
  * a ledger is fenced only if its last fragment was the same before and after the grace period; the
    compare-and-swap that begins the recovery ensures that it still is.

Source: the autorecovery page; BookKeeper's ``ReplicationWorker`` and ``LedgerFragmentReplicator``.
Decisions: the closed fragments come first; only the reported bookies are checked
(``RepairAim.suspects``), so a bookie that is being restarted keeps its slots.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.spans import Span
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.coverage import Coverage
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.procedure import Procedure, Steps
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries, missing_spans
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.fragment_cut import cut_starts
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.ledger_view import FragmentSlot, LedgerView
from zbk.protocol.repair.repair_effects import (
    BookieReplaced,
    ChooseTarget,
    CopyFragment,
    CutFragment,
    LedgerSeen,
    LookAtLedger,
    RecoverLedger,
    RepairAim,
    RepairEffect,
    RepairLimits,
    RepairResult,
    ReplaceBookie,
    TargetChosen,
    WaitUntil,
)
from zbk.protocol.repair.repair_notes import NO_KEY, WITHOUT_DIGEST, RepairNotes
from zbk.protocol.repair.source_survey import survey_sources


class LedgerRepair(Procedure[RepairEffect, RepairResult]):
    """One repair. A stopped repair has a result, too: what it did until then."""

    def __init__(self, aim: RepairAim, limits: RepairLimits | None = None) -> None:
        super().__init__(self._repair_ledger())
        self._aim = aim
        self._limits = limits or RepairLimits()
        self._view: LedgerView  # from the first look on
        self._notes = RepairNotes()
        self._surveyed: set[tuple[FragmentSlot, Span]] = set()
        self._gone: dict[FragmentSlot, tuple[Span, ...]] = {}  # lost, by slot of a cut fragment
        self._open: tuple[Fragment, int] | None = None  # a bad open fragment, and since when
        self._look_count = 0
        self._looked_at_ms = 0
        self._seen_at_ms = 0
        self._has_changed = False  # since the last look

    def stop(self) -> None:
        """End the repair where it waits."""
        super().stop()
        self._notes.update(is_stopped=True)
        self._result = self._notes.result

    # ------------------------------------------------------------------ the ledger

    def _repair_ledger(self) -> Steps[RepairEffect, RepairResult]:
        try:
            yield from self._look()
            while (yield from self._has_more()):
                pass
        except NoSuchLedgerError:  # slots that could not be repaired no longer matter
            return RepairResult(is_gone=True)
        except ZbkError as error:
            self._notes.update(error=self._notes.result.error or error)
        return self._notes.result

    def _look(self) -> Steps[RepairEffect, None]:
        if self._look_count == self._limits.look_count_max:
            raise BusyError(f"ledger {self._aim.ledger_id} changes too often to be repaired now")
        self._look_count += 1
        self._has_changed = False
        seen: LedgerSeen = yield LookAtLedger()
        self._looked_at_ms, self._seen_at_ms = seen.asked_ms, seen.seen_ms
        self._notes.update(ledger_version=seen.version)
        self._see(seen.metadata, seen.registered)

    def _has_more(self) -> Steps[RepairEffect, bool]:
        """Repair the first bad slot, or look again; return whether there may be more to do."""
        view = self._view
        if not view.is_readable:
            bad = next(filter(view.is_bad, view.slots(view.metadata.fragments)), None)
            if bad is not None:
                self._notes.give_up(bad, blocked=NO_KEY)
            return False
        slot = next(self._unrepaired_slots(), None)
        if slot is not None:
            yield from self._repair_slot(slot)
            return True
        self._notes.note_mended()
        fragment = view.open_fragment
        if fragment is not None and (yield from self._look_after_open(fragment)):
            return True
        if self._has_changed:
            yield from self._look()
            return True
        return False

    def _unrepaired_slots(self) -> Iterator[FragmentSlot]:
        given_up, good = self._notes.given_up, self._notes.good
        for one in self._view.closed_slots():
            if one not in given_up and (one not in good or self._notes.is_bad(one, self._view)):
                yield one

    # ------------------------------------------------------------------ the open fragment

    def _look_after_open(self, fragment: Fragment) -> Steps[RepairEffect, bool]:  # noqa: C901 - one wait or check after the other
        """Wait for the writer of the last fragment, or recover; return whether a slot is bad."""
        view = self._view
        slots = [one for one in view.slots([fragment]) if self._notes.is_bad(one, view)]
        bad = next(iter(slots), None)
        if bad is None or bad in self._notes.given_up:
            return False
        lost = list(filter(view.is_lost, slots))
        if not lost:  # a running bookie leaves after the writer is done
            self._notes.skip(bad)
            return True
        if self._open is None or self._open[0] != fragment:
            self._open = (fragment, self._seen_at_ms)  # it may have begun only then
        due_ms = self._open[1] + self._limits.grace_ms
        if self._looked_at_ms < due_ms:
            while (yield WaitUntil(due_ms)) < due_ms:
                pass
            yield from self._look()
        elif not Coverage(view.metadata.quorum).is_reachable([one.slot for one in lost]):
            names = ", ".join(one.bookie_id for one in lost)
            why = f"{names}, which have the entries written from {fragment.first_entry_id} on"
            self._notes.give_up(bad, uncovered=f"it is not closed, and cannot be without {why}")
        elif view.metadata.digest_type is DigestType.MAC and not self._aim.has_password:
            self._notes.give_up(bad, blocked=WITHOUT_DIGEST)
        elif (yield from self._choose_target(bad, {})) is not None:
            recovered = yield from self._change(bad, RecoverLedger(fragment))
            if recovered is not None:
                if recovered.is_ours:
                    self._notes.update(is_recovered=True)
                yield from self._look()
        return True

    # ------------------------------------------------------------------ one slot

    def _repair_slot(self, one: FragmentSlot) -> Steps[RepairEffect, None]:
        """Repair a slot of a closed fragment, or record why not."""
        first, last = self._view.span(one)
        if self._view.is_bad(one):
            yield from self._move(one)
        elif last < first:
            self._notes.good.add(one)
        elif self._view.is_awaited(one):
            self._notes.await_bookie(one.bookie_id)
            why = "is away, and its replicas of a ledger have to be compared"
            self._notes.give_up(one, error=BookieUnavailableError(one.bookie_id, why))
        else:
            yield from self._fill(one)

    def _move(self, one: FragmentSlot) -> Steps[RepairEffect, None]:
        """Copy the entries due on a slot to another bookie, then replace the bookie in the slot."""
        first, last = self._view.span(one)
        lost = self._view.without_source(one, [(first, last)])
        gone = self._gone.get(one, ())
        quorum = self._view.metadata.quorum
        if lost or (gone and not missing_spans(quorum, one.slot, (first, last), gone)):
            self._notes.give_up(one, lost=lost)
            return
        refused: dict[str, ZbkError] = {}
        while True:
            target = yield from self._choose_target(one, refused, self._view.own_target(one))
            if target is None:
                return
            if target == one.bookie_id:
                yield from self._mend(one, (first, last))
                return
            order = self._view.copy_order(one, target, ((first, last),))
            copied = CopyResult() if last < first else (yield from self._copy(order))
            if copied.is_whole:
                yield from self._replace(one, target)
                return
            if copied.target_error is None:
                yield from self._sound_spans(one, order, copied)
                return
            refused[target] = copied.target_error
            if len(refused) == self._limits.target_count_max:
                self._notes.give_up(one, error=copied.target_error)
                return

    def _mend(self, one: FragmentSlot, span: Span) -> Steps[RepairEffect, None]:
        """Copy the entries due on a slot to its own bookie, to replace the damaged ones."""
        if span[0] <= span[1]:
            yield from self._fill_spans(one, [span])
        self._notes.add_mended(one, span)

    def _fill(self, one: FragmentSlot) -> Steps[RepairEffect, None]:
        """Ask the bookie of a slot what it holds, in parts, and copy the missing entries to it."""
        unasked_id, end = self._view.span(one)
        while unasked_id <= end:
            try:
                held: Holdings = yield AskHoldings(one.bookie_id, (unasked_id, end))
            except ZbkError as error:
                self._notes.give_up(one, error=error)
                return
            last = end if held.last_entry_id is None else min(end, held.last_entry_id)
            part = (unasked_id, last)
            unasked_id = last + 1
            spans = missing_spans(self._view.metadata.quorum, one.slot, part, held.ranges)
            if spans:
                yield from self._fill_spans(one, spans)
            if one in self._notes.given_up:
                return
        self._notes.good.add(one)

    def _fill_spans(self, one: FragmentSlot, missing: Sequence[Span]) -> Steps[RepairEffect, None]:
        view = self._view
        self._notes.add_lost(view.without_source(one, missing))
        spans = tuple(span for span in missing if not view.without_source(one, [span]))
        if not spans:
            self._notes.give_up(one)
        while spans:
            order = view.copy_order(one, one.bookie_id, spans)
            copied = yield from self._copy(order)
            if copied.is_whole:
                return
            if copied.target_error is not None:
                self._notes.give_up(one, error=copied.target_error)
                return
            spans = yield from self._sound_spans(one, order, copied)

    # ------------------------------------------------------------------ losses

    def _sound_spans(
        self, one: FragmentSlot, order: CopyOrder, copied: CopyResult
    ) -> Steps[RepairEffect, tuple[Span, ...]]:
        """Handle a copy whose sources lack entries; return the spans to copy instead.

        There are none if the slot was given up, or its fragment was cut.
        """
        error, lost = copied.source_error, copied.lost
        key = (one, self._view.span(one))
        if isinstance(error, UnknownLedgerStateError) and key not in self._surveyed:
            self._surveyed.add(key)
            return (yield from self._survey(one, order))
        if error is not None:
            self._notes.give_up(one, error=error, lost=lost)
        else:
            yield from self._cut_around(one, order, lost)
        return ()

    def _survey(self, one: FragmentSlot, order: CopyOrder) -> Steps[RepairEffect, tuple[Span, ...]]:
        """Ask every source what it holds; return the spans that one of them has.

        As ``_sound_spans``. There are none if the slot is to be moved.
        """
        try:
            survey = yield from survey_sources(order)
        except ZbkError as error:
            self._notes.give_up(one, error=error)
            return ()
        lost = survey.lost()
        if not lost:  # a source has the entries, but did not return them
            in_limbo = min(survey.in_limbo, default="?")
            self._notes.give_up(one, error=UnknownLedgerStateError(self._aim.ledger_id, in_limbo))
            return ()
        self._notes.add_in_limbo(survey.in_limbo)
        if order.is_move:
            yield from self._cut_around(one, order, lost)
            return ()
        self._notes.add_lost(lost)
        if not (spans := survey.due_spans()):
            self._notes.give_up(one)
        return spans

    def _cut_around(
        self, one: FragmentSlot, order: CopyOrder, lost: tuple[LostEntries, ...]
    ) -> Steps[RepairEffect, None]:
        """Cut the fragment around lost entries, if something is left of it."""
        metadata, span = self._view.metadata, self._view.span(one)
        exact = tuple((a.first_entry_id, a.last_entry_id) for a in lost)
        starts = cut_starts(metadata, span, exact) if order.is_move else ()
        if not starts:
            self._notes.give_up(one, lost=lost)
            return
        self._notes.add_lost(lost)
        slots = [msgspec.structs.replace(one, first_entry_id=start) for start in (span[0], *starts)]
        self._gone |= dict.fromkeys(slots, exact)
        changed = yield from self._change(one, CutFragment(span[0], starts))
        if changed is not None:
            self._see_change(changed)

    # ------------------------------------------------------------------ effects

    def _choose_target(
        self, one: FragmentSlot, refused: Mapping[str, ZbkError], own: str | None = None
    ) -> Steps[RepairEffect, str | None]:
        """Return a bookie for a slot, or else ``own``; ``None``: the slot is given up."""
        fragment = self._view.fragment(one)
        exclude = self._aim.to_leave.union(refused)
        wanted = ChooseTarget(fragment.bookies, one.slot, exclude, self._view.needs)
        chosen: TargetChosen = yield wanted
        if chosen.is_skipped:
            self._notes.skip(one)
            return None
        if chosen.bookie_id is None and own is not None:
            return own
        if chosen.bookie_id is None:
            what = f"to take the place of {one.bookie_id} in ledger {self._aim.ledger_id}"
            errors = [NotEnoughBookiesError(1, 0, what), *refused.values()]
            self._notes.give_up(one, error=errors[-1])
        assert chosen.bookie_id not in fragment.bookies, "a bookie has one slot"
        return chosen.bookie_id

    def _copy(self, order: CopyOrder) -> Steps[RepairEffect, CopyResult]:
        copied: CopyResult = yield CopyFragment(order)
        self._notes.add_copy(copied)
        return copied

    def _replace(self, one: FragmentSlot, target: str) -> Steps[RepairEffect, None]:
        wanted = ReplaceBookie(one.first_entry_id, one.slot, one.bookie_id, target)
        replaced: BookieReplaced | None = yield from self._change(one, wanted)
        if replaced is None:
            return
        self._see_change(replaced.metadata, target)
        self._notes.add_replaced(one, is_ours=replaced.is_ours)

    def _change(
        self, one: FragmentSlot, wanted: ReplaceBookie | CutFragment | RecoverLedger
    ) -> Steps[RepairEffect, Any]:
        """Change the ledger; return the answer. ``None``: it failed, and the slot is given up."""
        try:
            return (yield wanted)
        except NoSuchLedgerError:
            raise
        except ZbkError as error:
            self._notes.give_up(one, error=error)
            return None

    def _see_change(self, metadata: LedgerMetadata, *targets: str) -> None:
        """Continue with changed metadata. A target may have registered after the last look."""
        self._see(metadata, self._view.registered.union(targets))
        self._has_changed = True

    def _see(self, metadata: LedgerMetadata, registered: frozenset[str]) -> None:
        self._view = LedgerView(metadata, registered, self._aim)
        self._notes.away = self._view.away
