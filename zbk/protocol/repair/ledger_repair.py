"""How one ledger is made whole again.

A *bad slot* is a slot of one fragment whose bookie is lost, is to leave, or lacks entries that are
due on it. Fragments are worked on in order, their slots in order, each by what is known now:

    a closed fragment    its end is known: the ledger is closed, or another fragment follows
      lost, to leave     a target is chosen, the due entries are copied to it and confirmed, then it
                         takes the bookie's place in the metadata, by compare-and-swap: at every
                         moment the metadata name at least as many replicas as before
      lacks entries      what is missing is copied to the bookie itself. One that is only to be
                         compared, and is away, is waited for: another repair comes when it is back
    an open fragment     the last one of a ledger that is written, or being recovered. Nothing is
                         copied: its writer may still add to the lost bookie's place. It gets
                         ``grace_ms`` to begin another fragment; if it is the same one then, the
                         ledger is fenced and recovered, which closes it. Not before a target is
                         known: fencing a writer that nobody can help would only hurt. Nor where
                         recovery has no chance: the bookies that are left do not cover the
                         ensemble. Nor for one that is there and is to leave: that one waits for
                         the writer.

After that the ledger is looked at again, until nothing is left to do. A slot that could not be
repaired is told in the result, and not tried twice in one repair; the others are repaired.

Sources are the bookies of the fragment that are registered. Entries that none of them holds are
*lost*, also where one of them is in limbo and does not know whether it had them: no waiting brings
those back (``source_survey``). Their slot keeps its bookie, which may come back. So that they do
not keep what is left of the fragment on too few bookies, the fragment is *cut* around them if the
ledger is closed: the parts without a loss are repaired, the others stay as they are. Whether fewer
replicas are left than anybody promised is never guessed: what cannot be verified needs the
ledger's password (``blocked``).

A fragment without entries is only given another bookie in the metadata.

Invariants, checked in ``_check``:
  * one thing is under way at a time;
  * a bookie is replaced only after a copy of the same slot to the same target was whole, or if
    nothing was due on it;
  * nothing is fenced that was not seen, unchanged, before and after the grace period; that it is
    still unchanged the compare-and-swap makes sure which begins the recovery.

Limits: one repair cuts a fragment at most ``LOST_SPAN_COUNT_MAX`` times in a go, around the losses
with the widest gaps between them, and never into more than ``FRAGMENT_COUNT_MAX`` in all.

Source: the autorecovery page; BookKeeper's ``ReplicationWorker`` and ``LedgerFragmentReplicator``.
Decisions: the closed fragments come first; only the bookies that were reported are looked at
(``RepairAim.suspects``), so that one that is being restarted is not given up by the way.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    NotEnoughBookiesError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.spans import Span, covering, overlaps
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.coverage import Coverage
from zbk.protocol.ledger.metadata import Fragment
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries, due_count, missing_spans
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.ledger_repair_events import (
    AskHoldings,
    BookieReplaced,
    ChooseTarget,
    CopyFragment,
    CutFragment,
    Effect,
    EndRepair,
    Event,
    FragmentCopied,
    FragmentCut,
    HoldingsFailed,
    HoldingsTold,
    LedgerGone,
    LedgerRecovered,
    LedgerSeen,
    LookAtLedger,
    LookFailed,
    RecoverLedger,
    RecoveryFailed,
    RepairAim,
    RepairLimits,
    RepairResult,
    RepairStarted,
    RepairStopped,
    ReplaceBookie,
    ReplaceFailed,
    TargetChosen,
    TimePassed,
    WaitUntil,
)
from zbk.protocol.repair.ledger_view import FragmentSlot, LedgerView
from zbk.protocol.repair.source_survey import SourceSurvey

LOST_SPAN_COUNT_MAX: Final = 8
"""Losses that a fragment is cut around at once; those that are closest count as one."""

FRAGMENT_COUNT_MAX: Final = 1_000
"""A ledger with more fragments is not cut any more: its metadata are one value."""


class LedgerRepair:
    """One repair. ``RepairStarted`` comes first, nothing follows ``EndRepair``."""

    def __init__(self, aim: RepairAim, limits: RepairLimits | None = None) -> None:
        self._aim = aim
        self._limits = limits or RepairLimits()
        self._seen: LedgerView | None = None
        self._under_way: Effect | None = None
        self._at_work: FragmentSlot | None = None
        self._order: CopyOrder | None = None
        self._good: set[FragmentSlot] = set()  # held all that was due when they were asked
        self._given_up: set[FragmentSlot] = set()
        self._refused: set[str] = set()  # targets that failed for the slot at work
        self._unasked_id = 0  # from there on the bookie at work was not asked what it holds
        self._survey: SourceSurvey | None = None
        self._surveyed: set[tuple[FragmentSlot, Span]] = set()
        self._gone: dict[FragmentSlot, tuple[Span, ...]] = {}  # lost, by slots of cut fragments
        self._open: tuple[Fragment, int] | None = None  # an affected one, and since when
        self._look_count = 0
        self._looked_at_ms = 0
        self._seen_at_ms = 0
        self._has_changed = False  # since the last look
        self._result = RepairResult()
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True after ``EndRepair``."""
        return self._is_over

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return what is to be done. After the end all is late news."""
        if self._is_over:
            return []
        asked, self._under_way = self._under_way, None
        match event:
            case RepairStarted():
                assert asked is None, "a repair starts once"
                effect = self._look(now_ms)
            case RepairStopped():
                effect = self._end(is_stopped=True)
            case TimePassed():
                effect = self._on_time(asked, now_ms)
            case LedgerGone():
                effect = self._end(is_gone=True)
            case LookFailed(error):
                effect = self._end(error=error)
            case LedgerSeen(metadata, registered):
                self._seen = LedgerView(metadata, registered, self._aim)
                self._seen_at_ms = now_ms
                effect = self._next(now_ms)
            case BookieReplaced() | FragmentCut() | ReplaceFailed():
                effect = self._on_changed(event, asked, now_ms)
            case LedgerRecovered() | RecoveryFailed():
                effect = self._on_recovered(event, now_ms)
            case _:
                effect = self._on_slot_news(event, now_ms)
        self._under_way = effect
        self._check(asked)
        return [effect]

    def _on_slot_news(
        self, event: HoldingsTold | HoldingsFailed | TargetChosen | FragmentCopied, now_ms: int
    ) -> Effect:
        match event:
            case HoldingsTold() if self._survey is not None:
                self._survey.told(event)
                return self._go_on_asking(self._survey, now_ms)
            case HoldingsTold():
                return self._on_holdings(event, now_ms)
            case HoldingsFailed(error):
                return self._give_up(now_ms, error=error)
            case TargetChosen():
                return self._on_target(event, now_ms)
            case FragmentCopied(result):
                return self._on_copied(result, now_ms)
            case _:
                assert_never(event)

    @property
    def _view(self) -> LedgerView:
        assert self._seen is not None, "the ledger is looked at first"
        return self._seen

    # ------------------------------------------------------------------ what comes next

    def _look(self, now_ms: int) -> Effect:
        if self._look_count == self._limits.look_count_max:
            what = f"ledger {self._aim.ledger_id} changes too often to be repaired now"
            return self._end(error=BusyError(what))
        self._look_count += 1
        self._looked_at_ms = now_ms
        self._has_changed = False
        return LookAtLedger()

    def _next(self, now_ms: int) -> Effect:
        """Begin with the first slot that is not done; then the open fragment; then look again."""
        view = self._view
        self._at_work, self._order, self._survey = None, None, None
        self._refused.clear()
        if not view.is_readable:
            is_bad = any(map(view.is_bad, view.slots(view.metadata.fragments)))
            return self._end(blocked=_NO_KEY if is_bad else "")
        for one in view.closed_slots():
            if one not in self._given_up and (one not in self._good or view.is_bad(one)):
                return self._begin(one, now_ms)
        if view.open_fragment is not None:
            effect = self._look_after_open(view.open_fragment, now_ms)
            if effect is not None:
                return effect
        return self._look(now_ms) if self._has_changed else self._end()

    def _begin(self, one: FragmentSlot, now_ms: int) -> Effect:
        self._at_work = one
        span = self._view.span(one)
        if self._view.is_bad(one):
            return self._seek_target(one, now_ms)
        if span[1] < span[0]:
            return self._finish_slot(now_ms)
        if self._view.is_awaited(one):
            awaited = self._result.awaited | {one.bookie_id}
            self._result = msgspec.structs.replace(self._result, awaited=awaited)
            why = "is away, and what it holds of a ledger is to be compared"
            return self._give_up(now_ms, error=BookieUnavailableError(one.bookie_id, why))
        self._unasked_id = span[0]
        return self._go_on_comparing(one, now_ms)

    def _go_on_comparing(self, one: FragmentSlot, now_ms: int) -> Effect:
        """Ask the bookie at work for the next part of what it holds, or be done with it."""
        last = self._view.span(one)[1]
        if self._unasked_id > last:
            return self._finish_slot(now_ms)
        return AskHoldings(one.bookie_id, (self._unasked_id, last))

    def _look_after_open(self, fragment: Fragment, now_ms: int) -> Effect | None:
        """Wait for the writer of the last fragment, or recover; ``None``: that is not needed."""
        bad = next(filter(self._view.is_bad, self._view.slots([fragment])), None)
        if bad is None or bad in self._given_up:
            return None
        if not any(map(self._view.is_lost, self._view.slots([fragment]))):
            self._at_work = bad  # it is there, and leaves when the writer is done
            return self._skip(now_ms)
        if self._open is None or self._open[0] != fragment:
            self._open = (fragment, self._seen_at_ms)  # it may be no older than that
        due_ms = self._open[1] + self._limits.grace_ms
        if self._looked_at_ms < due_ms:
            return WaitUntil(max(due_ms, now_ms))
        self._at_work = bad
        lost = [one for one in self._view.slots([fragment]) if self._view.is_lost(one)]
        if not Coverage(self._view.metadata.quorum).is_reachable([one.slot for one in lost]):
            return self._give_up(now_ms, uncovered=_uncovered(fragment, lost))
        if self._view.metadata.digest_type is DigestType.MAC and not self._aim.has_password:
            return self._give_up(now_ms, blocked=_WITHOUT_DIGEST)
        return ChooseTarget(fragment.bookies, bad.slot, self._aim.to_leave)

    def _on_time(self, asked: Effect | None, now_ms: int) -> Effect:
        if isinstance(asked, WaitUntil) and now_ms >= asked.until_ms:
            return self._look(now_ms)
        assert asked is not None, "something is under way"
        return asked

    # ------------------------------------------------------------------ one slot

    def _seek_target(self, one: FragmentSlot, now_ms: int) -> Effect:
        span = self._view.span(one)
        lost = self._view.without_source(one, [span])
        gone = self._gone.get(one, ())
        is_gone = gone and not missing_spans(self._view.metadata.quorum, one.slot, span, gone)
        if lost or is_gone:
            return self._give_up(now_ms, lost=lost)
        exclude = self._aim.to_leave | self._refused
        return ChooseTarget(self._view.fragment(one).bookies, one.slot, exclude)

    def _on_target(self, chosen: TargetChosen, now_ms: int) -> Effect:
        one = self._at_work
        assert one is not None, "a target is for a slot"
        if chosen.is_skipped:
            return self._skip(now_ms)
        if chosen.bookie_id is None:
            what = f"to take the place of {one.bookie_id} in ledger {self._aim.ledger_id}"
            return self._give_up(now_ms, error=NotEnoughBookiesError(1, 0, what))
        assert chosen.bookie_id not in self._view.fragment(one).bookies, "a bookie has one slot"
        if self._view.open_fragment == self._view.fragment(one):
            return RecoverLedger(self._view.fragment(one))
        first, last = self._view.span(one)
        if last < first:
            return ReplaceBookie(first, one.slot, one.bookie_id, chosen.bookie_id)
        return self._copy(one, chosen.bookie_id, ((first, last),))

    def _copy(self, one: FragmentSlot, target: str, spans: tuple[Span, ...]) -> Effect:
        self._order = self._view.copy_order(one, target, spans)
        return CopyFragment(self._order)

    def _on_holdings(self, told: HoldingsTold, now_ms: int) -> Effect:
        one, view = self._at_work, self._view
        assert one is not None, "a bookie was asked about a slot"
        end = view.span(one)[1]
        last = end if told.last_entry_id is None else min(end, told.last_entry_id)
        part = (self._unasked_id, last)
        self._unasked_id = last + 1
        spans = missing_spans(view.metadata.quorum, one.slot, part, told.ranges)
        if not spans:
            return self._go_on_comparing(one, now_ms)
        self._note(lost=view.without_source(one, spans))
        spans = tuple(span for span in spans if not view.without_source(one, [span]))
        return self._copy(one, one.bookie_id, spans) if spans else self._give_up(now_ms)

    def _on_copied(self, copied: CopyResult, now_ms: int) -> Effect:
        one, order = self._at_work, self._order
        assert one is not None, "a copy is for a slot"
        assert order is not None, "it was ordered"
        self._result = msgspec.structs.replace(
            self._result,
            copied_count=self._result.copied_count + copied.copied_count,
            copied_size=self._result.copied_size + copied.copied_size,
        )
        if copied.is_stopped:
            return self._end(is_stopped=True)
        if copied.target_error is not None:
            return self._on_bad_target(one, order, copied.target_error, now_ms)
        if copied.source_error is not None or copied.lost:
            return self._on_partial_copy(one, order, copied, now_ms)
        if order.is_move:
            return ReplaceBookie(one.first_entry_id, one.slot, one.bookie_id, order.target)
        return self._go_on_comparing(one, now_ms)

    def _on_partial_copy(
        self, one: FragmentSlot, order: CopyOrder, copied: CopyResult, now_ms: int
    ) -> Effect:
        if copied.source_error is None:
            return self._on_lost(one, order, copied.lost, now_ms)
        key = (one, self._view.span(one))
        if isinstance(copied.source_error, UnknownLedgerStateError) and key not in self._surveyed:
            self._surveyed.add(key)
            self._survey = SourceSurvey.begun(order)
            return self._go_on_asking(self._survey, now_ms)
        return self._give_up(now_ms, error=copied.source_error, lost=copied.lost)

    def _go_on_asking(self, survey: SourceSurvey, now_ms: int) -> Effect:
        """Ask the next source what it holds; after the last one go on with what there is."""
        if survey.to_ask:
            return AskHoldings(survey.to_ask[0], survey.rest)
        self._survey = None
        one, order, lost = self._at_work, survey.order, survey.lost()
        assert one is not None, "a survey is for a slot"
        if not lost:  # somebody has it, and did not give it
            error = UnknownLedgerStateError(self._aim.ledger_id, min(survey.in_limbo, default="?"))
            return self._give_up(now_ms, error=error)
        in_limbo = self._result.in_limbo | survey.in_limbo
        self._result = msgspec.structs.replace(self._result, in_limbo=in_limbo)
        if order.is_move:
            return self._on_lost(one, order, lost, now_ms)
        self._note(lost=lost)
        spans = tuple(
            known
            for span in order.spans
            for known in overlaps([span], survey.held)
            if due_count(order.metadata.quorum, order.slot, *known)
        )
        return self._copy(one, order.target, spans) if spans else self._give_up(now_ms)

    def _on_lost(
        self, one: FragmentSlot, order: CopyOrder, lost: tuple[LostEntries, ...], now_ms: int
    ) -> Effect:
        """Cut the fragment around what is lost, if something is left of it then."""
        metadata = self._view.metadata
        first, last = self._view.span(one)
        exact = tuple((a.first_entry_id, a.last_entry_id) for a in lost)
        edges = (
            edge for begin, end in covering(exact, LOST_SPAN_COUNT_MAX) for edge in (begin, end + 1)
        )
        starts = tuple(edge for edge in edges if first < edge <= last)
        is_too_much = len(metadata.fragments) + len(starts) > FRAGMENT_COUNT_MAX
        if not (order.is_move and starts and metadata.is_closed) or is_too_much:
            return self._give_up(now_ms, lost=lost)
        self._note(lost=lost)
        slots = [msgspec.structs.replace(one, first_entry_id=start) for start in (first, *starts)]
        self._gone |= dict.fromkeys(slots, exact)
        return CutFragment(one.first_entry_id, starts)

    def _on_bad_target(
        self, one: FragmentSlot, order: CopyOrder, error: ZbkError, now_ms: int
    ) -> Effect:
        self._refused.add(order.target)
        if not order.is_move or len(self._refused) == self._limits.target_count_max:
            return self._give_up(now_ms, error=error)
        return self._seek_target(one, now_ms)

    def _on_changed(
        self,
        event: BookieReplaced | FragmentCut | ReplaceFailed,
        asked: Effect | None,
        now_ms: int,
    ) -> Effect:
        if isinstance(event, ReplaceFailed):
            return self._give_up(now_ms, error=event.error)
        # whoever was chosen may have come since the ledger was looked at
        there = self._view.registered | ({asked.new} if isinstance(asked, ReplaceBookie) else set())
        self._seen = LedgerView(event.metadata, there, self._aim)
        self._has_changed = True
        if isinstance(event, FragmentCut):
            return self._next(now_ms)
        replaced_count = self._result.replaced_count + event.is_ours
        self._result = msgspec.structs.replace(self._result, replaced_count=replaced_count)
        return self._finish_slot(now_ms)

    def _on_recovered(self, event: LedgerRecovered | RecoveryFailed, now_ms: int) -> Effect:
        if isinstance(event, RecoveryFailed):
            return self._give_up(now_ms, error=event.error)
        if event.is_ours:
            self._result = msgspec.structs.replace(self._result, is_recovered=True)
        return self._look(now_ms)

    def _finish_slot(self, now_ms: int) -> Effect:
        assert self._at_work is not None, "a slot is at work"
        self._good.add(self._at_work)
        return self._next(now_ms)

    def _give_up(
        self,
        now_ms: int,
        *,
        lost: tuple[LostEntries, ...] = (),
        uncovered: str = "",
        blocked: str = "",
        error: ZbkError | None = None,
    ) -> Effect:
        """Note why the slot at work is not repaired, and go on with the others."""
        assert self._at_work is not None, "a slot is at work"
        self._note(lost=lost, uncovered=uncovered, blocked=blocked, error=error)
        self._given_up.add(self._at_work)
        return self._next(now_ms)

    def _skip(self, now_ms: int) -> Effect:
        """Leave the slot at work to others, or to another time."""
        skipped_count = self._result.skipped_count + 1
        self._result = msgspec.structs.replace(self._result, skipped_count=skipped_count)
        return self._give_up(now_ms)

    # ------------------------------------------------------------------ the end

    def _note(
        self,
        *,
        lost: tuple[LostEntries, ...] = (),
        uncovered: str = "",
        blocked: str = "",
        error: ZbkError | None = None,
    ) -> None:
        result = self._result
        new = tuple(one for one in lost if one not in result.lost)
        self._result = msgspec.structs.replace(
            result,
            lost=(*result.lost, *new),
            away=result.away | self._view.away if new or uncovered else result.away,
            uncovered=result.uncovered or uncovered,
            blocked=result.blocked or blocked,
            error=result.error or error,
        )

    def _end(
        self,
        *,
        is_gone: bool = False,
        is_stopped: bool = False,
        blocked: str = "",
        error: ZbkError | None = None,
    ) -> Effect:
        self._is_over = True
        self._note(blocked=blocked, error=error)
        if is_gone:  # what could not be repaired need not be
            self._result = RepairResult(is_gone=True)
        self._result = msgspec.structs.replace(self._result, is_stopped=is_stopped)
        return EndRepair(self._result)

    def _check(self, before: Effect | None) -> None:
        assert self._is_over == isinstance(self._under_way, EndRepair)
        match self._under_way:
            case ReplaceBookie(first, slot, old, new):
                is_empty = isinstance(before, ChooseTarget)
                order = self._order
                assert is_empty or (
                    order is not None
                    and order.target == new
                    and order.fragment.first_entry_id == first
                    and (order.slot, order.fragment.bookies[slot]) == (slot, old)
                ), "what takes a bookie's place was copied before"
            case CutFragment():
                assert self._view.metadata.is_closed, "its writer knows its fragments"
            case RecoverLedger(fragment):
                assert self._open is not None, "the grace period has begun"
                assert self._open[0] == fragment
                assert self._looked_at_ms >= self._open[1] + self._limits.grace_ms
            case _:
                pass


def _uncovered(fragment: Fragment, lost: Sequence[FragmentSlot]) -> str:
    names = ", ".join(one.bookie_id for one in lost)
    return (
        f"it is not closed, and cannot be without {names}, which have what was written from entry "
        f"{fragment.first_entry_id} on"
    )


_NO_KEY = (
    "its metadata are of format 1 and have no key for the bookies: repair it with its password, "
    "zbk bookie recover --password-file"
)
_WITHOUT_DIGEST = (
    "it is not closed, and its end cannot be verified without its password: close it with "
    "zbk ledger recover --password-file"
)
