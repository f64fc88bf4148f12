"""The re-check of ledgers in limbo: what is copied, when one is cleared, and what is told."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.quorums import quorums
from zbk.durability.limbo_recheck import (
    ROUND_PAUSE_MAX_S,
    ROUND_PAUSE_S,
    LedgerRecheck,
    Patience,
    ReadClock,
    RecheckEffect,
    RecheckResult,
    listed_first,
    next_pause_s,
)
from zbk.errors import (
    BookieUnavailableError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.spans import Span, merged
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.repair_effects import (
    CopyFragment,
    LedgerSeen,
    LookAtLedger,
    WaitUntil,
)

LEDGER_ID = 7
Q332 = Quorum(3, 3, 2)
ABC = ("a", "b", "c")
PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
GRACE_MS = 60_000


def ledger(
    *fragments: Fragment, quorum: Quorum = Q332, kind: LedgerType = PD, last: int | None = None
) -> LedgerMetadata:
    """Return a ledger, closed if it has a last entry."""
    metadata = LedgerMetadata(
        ledger_id=LEDGER_ID,
        ensemble_size=quorum.ensemble_size,
        write_quorum_size=quorum.write_size,
        ack_quorum_size=quorum.ack_size,
        ledger_type=kind,
        digest_type=DigestType.XXH3,
        password_digest=b"",
        fragments=fragments or (Fragment(0, ABC),),
        created_ms=0,
        creation_token="token",
    )
    return metadata if last is None else metadata.with_closed(last, 0)


class World:
    """What each bookie holds, and an attempt of bookie "a" to check the ledger."""

    def __init__(self, metadata: LedgerMetadata | None, **held: set[int]) -> None:
        self.metadata = metadata
        self.held = {"a": set[int](), **held}
        self.silent: set[str] = set()
        self.unreadable: set[int] = set()
        self.not_known: set[int] = set()  # entries that a peer in limbo does not know of
        self.asked: list[str] = []
        self.copied: list[tuple[Span, ...]] = []
        self.range_count_max = 1 << 20
        self.patience = Patience(GRACE_MS)
        self.now_ms = 0

    def attempt(self, *, has_lost_fences: bool) -> RecheckResult:
        """Go on to the end."""
        recheck = LedgerRecheck("a", has_lost_fences=has_lost_fences, patience=self.patience)
        effect = recheck.begin()
        for _ in range(1_000):
            if effect is None:
                return recheck.result
            effect = recheck.answer(self.carry_out(effect))
        raise AssertionError("it does not end")

    def carry_out(self, effect: RecheckEffect) -> object:
        """Return the answer to an effect."""
        match effect:
            case LookAtLedger():
                return self._look()
            case AskHoldings(bookie_id, span):
                return self._ask(bookie_id, span)
            case CopyFragment():
                return self._copy(effect)
            case WaitUntil(until_ms):
                assert until_ms > self.now_ms
                self.now_ms = until_ms
                return self.now_ms
            case ReadClock():
                return self.now_ms

    def _look(self) -> LedgerSeen | ZbkError:
        if self.metadata is None:
            return NoSuchLedgerError(LEDGER_ID)
        registered = frozenset(self.held) - self.silent
        return LedgerSeen(self.metadata, registered, self.now_ms, self.now_ms)

    def _ask(self, bookie_id: str, span: Span) -> Holdings | ZbkError:
        self.asked.append(bookie_id)
        if bookie_id in self.silent:
            return BookieUnavailableError(bookie_id, "not there")
        held = {one for one in self.held.get(bookie_id, set()) if span[0] <= one <= span[1]}
        ranges = tuple(merged((one, one) for one in held))
        if len(ranges) > self.range_count_max:  # a full page: the rest is asked for
            return Holdings(ranges[:1], ranges[0][1])
        return Holdings(ranges)

    def _copy(self, effect: CopyFragment) -> CopyResult:
        order = effect.order
        assert order.target == "a"
        self.copied.append(order.spans)
        quorum, count, lost = order.metadata.quorum, 0, []
        for entry_id in (i for first, last in order.spans for i in range(first, last + 1)):
            if not quorum.holds(order.slot, entry_id):
                continue
            assert entry_id not in self.held["a"], "it was there"
            holders = [
                order.fragment.bookies[s] for s in order.sources if quorum.holds(s, entry_id)
            ]
            assert holders, "somebody can be asked"
            if entry_id in self.not_known:
                error = UnknownLedgerStateError(LEDGER_ID, "b")
                return CopyResult(copied_count=count, source_error=error)
            if entry_id in self.unreadable or not any(entry_id in self.held[b] for b in holders):
                lost.append(LostEntries(entry_id, entry_id, 1, "gone"))
            else:
                self.held["a"].add(entry_id)
                count += 1
        return CopyResult(copied_count=count, lost=tuple(lost))


def ids(*spans: Span) -> set[int]:
    return {one for first, last in spans for one in range(first, last + 1)}


# ------------------------------------------------------------------ any loss


def test_a_ledger_that_was_deleted_is_cleared() -> None:
    for has_lost_fences in (True, False):
        assert World(None).attempt(has_lost_fences=has_lost_fences) == RecheckResult()


def test_a_ledger_that_does_not_name_the_bookie_is_cleared_and_nobody_is_asked() -> None:
    for has_lost_fences in (True, False):
        world = World(ledger(Fragment(0, ("b", "c", "d")), kind=VD))

        assert world.attempt(has_lost_fences=has_lost_fences) == RecheckResult()
        assert not world.asked


def test_what_a_peer_holds_from_an_earlier_slot_keeps_no_striped_ledger_in_limbo() -> None:
    """Nothing is copied from it, as no reader asks it; else two bookies wait for each other."""
    world = World(ledger(quorum=Quorum(3, 2, 1), kind=VD), b=set(), c={0, 2})

    result = world.attempt(has_lost_fences=False)

    assert result == RecheckResult(copied_count=1)
    assert world.held["a"] == {2}


def test_without_its_metadata_a_ledger_stays_in_limbo() -> None:
    recheck = LedgerRecheck("a", has_lost_fences=True, patience=Patience(0))
    recheck.begin()

    assert recheck.answer(MetadataUnavailableError("zk://here", "no answer")) is None

    assert "metadata cannot be read" in recheck.result.reason
    assert not recheck.result.is_hopeless


def test_a_bookie_that_cannot_be_asked_what_it_holds_itself_clears_nothing() -> None:
    world = World(ledger(last=9), b=ids((0, 9)), c=ids((0, 9)))
    world.silent = {"a"}

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert not world.copied


# ------------------------------------------------------------------ an unclean stop


def test_what_any_peer_holds_is_copied_before_the_ledger_is_cleared() -> None:
    world = World(ledger(kind=VD), a=ids((0, 4)), b=ids((0, 6)), c=ids((0, 4), (8, 8)))

    assert world.attempt(has_lost_fences=False) == RecheckResult(copied_count=3)

    assert world.asked == ["a", "b", "c"]
    assert world.held["a"] == ids((0, 6), (8, 8))


def test_a_pd_ledger_lost_nothing_and_is_cleared_without_a_question() -> None:
    world = World(ledger(kind=PD), b=ids((0, 6)))

    assert world.attempt(has_lost_fences=False) == RecheckResult()
    assert not world.asked


def test_a_silent_peer_is_waited_for_and_its_entries_are_copied_when_it_is_back() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=set())
    world.silent = {"b"}
    recheck = LedgerRecheck("a", has_lost_fences=False, patience=world.patience)
    effect = recheck.begin()
    while not isinstance(effect, WaitUntil):
        assert effect is not None
        effect = recheck.answer(world.carry_out(effect))
    assert world.asked == ["a", "b", "c"]
    world.silent = set()

    asks = recheck.answer(world.carry_out(effect))

    assert asks == AskHoldings("b", (0, 2**63 - 1))
    copies = recheck.answer(Holdings(((0, 6),)))
    assert isinstance(copies, CopyFragment)
    assert copies.order.spans == ((0, 6),)


def test_a_peer_that_tells_what_it_holds_in_parts_is_asked_for_all_of_it() -> None:
    world = World(ledger(kind=VD), a=ids((2, 2)), b=ids((0, 0), (2, 2), (5, 6)), c=set())
    world.range_count_max = 1

    assert world.attempt(has_lost_fences=False) == RecheckResult(copied_count=3)

    assert world.asked == ["a", "b", "b", "b", "c"]


def test_a_peer_that_stays_silent_is_waited_for_no_longer_than_the_grace() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=ids((0, 3)))
    world.silent = {"b"}

    end = world.attempt(has_lost_fences=False)

    assert end == RecheckResult(copied_count=4, silent=("b",))
    assert GRACE_MS <= world.now_ms < 2 * GRACE_MS


def test_the_grace_is_waited_for_once_and_not_at_every_ledger() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=ids((0, 3)))
    world.silent = {"b"}
    world.attempt(has_lost_fences=False)
    waited_ms = world.now_ms

    assert world.attempt(has_lost_fences=False) == RecheckResult(silent=("b",))

    assert world.now_ms == waited_ms


def test_a_peer_that_answered_in_between_is_waited_for_again() -> None:
    patience = Patience(100)
    patience.silent("b", 0)
    assert patience.is_over("b", 100)

    patience.answered("b")
    patience.silent("b", 150)

    assert not patience.is_over("b", 249)
    assert patience.is_over("b", 250)


def test_what_a_peer_holds_and_does_not_give_keeps_the_ledger_in_limbo() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=ids((0, 6)))
    world.unreadable = {5}

    end = world.attempt(has_lost_fences=False)

    assert not end.is_cleared
    assert "entry 5: gone" in end.reason
    assert end.is_hopeless
    assert end.copied_count == 6


def test_entries_behind_the_end_of_a_closed_ledger_are_not_copied() -> None:
    world = World(ledger(kind=VD, last=3), b=ids((0, 6)), c=ids((0, 3)))

    assert world.attempt(has_lost_fences=False) == RecheckResult(copied_count=4)
    assert world.held["a"] == ids((0, 3))


# ------------------------------------------------------------------ a loss of everything


def test_a_closed_ledger_is_cleared_once_all_of_it_is_here() -> None:
    world = World(ledger(last=9), a=ids((2, 3)), b=ids((0, 9)), c=ids((0, 9)))

    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=8)

    assert world.copied == [((0, 1), (4, 9))]
    assert world.held["a"] == ids((0, 9))
    assert world.asked == ["a"], "the metadata say what there was"


def test_an_empty_closed_ledger_is_cleared_without_a_question() -> None:
    world = World(ledger(last=-1))

    assert world.attempt(has_lost_fences=True) == RecheckResult()
    assert not world.asked


def test_what_nobody_has_any_more_keeps_the_ledger_in_limbo_and_the_rest_is_copied() -> None:
    world = World(ledger(last=9), b=ids((0, 4), (6, 9)), c=ids((0, 4), (6, 9)))

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert end.is_hopeless
    assert "entry 5: gone" in end.reason
    assert world.held["a"] == ids((0, 4), (6, 9))


def test_what_a_peer_in_limbo_does_not_know_of_does_not_keep_the_rest_from_being_copied() -> None:
    """Two bookies of three were wiped: the third one's entries are on all again, all the same."""
    world = World(ledger(last=9), b=set(), c=ids((0, 1), (4, 6), (8, 9)))
    world.not_known = {2, 3, 7}

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert not end.is_hopeless
    assert "bookie b may have lost" in end.reason
    assert end.copied_count == 7
    assert world.held["a"] == ids((0, 1), (4, 6), (8, 9))
    world.not_known = set()
    world.held["b"] = ids((0, 9))
    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=3)


def test_a_peer_that_knows_of_nothing_is_not_asked_for_ever() -> None:
    world = World(ledger(last=999), b=set(), c=set())
    world.not_known = ids((0, 999))

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert len(world.copied) <= 20


def test_what_nobody_who_is_there_should_have_is_not_asked_for() -> None:
    """Of a striped ledger each entry has its own peers; those of some may all be away."""
    world = World(ledger(quorum=Quorum(3, 2, 2), last=8), b=ids((0, 8)), c=ids((0, 8)))
    world.silent = {"c"}

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert not end.is_hopeless
    assert "no peer is there that could give entries 0 .. 8" in end.reason
    world.silent = set()
    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=6)


def test_without_peers_nothing_is_cleared_and_that_is_not_the_last_word() -> None:
    world = World(ledger(last=9), b=ids((0, 9)), c=ids((0, 9)))
    world.silent = {"b", "c"}

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert "no peer is there that could give entries 0 .. 9" in end.reason
    assert not end.is_hopeless


def test_no_waiting_clears_a_ledger_whose_last_ensemble_has_the_bookie() -> None:
    world = World(ledger(), b=ids((0, 9)), c=ids((0, 9)))

    for _ in range(3):
        end = world.attempt(has_lost_fences=True)
        assert not end.is_cleared
        assert "recover the ledger" in end.reason
        world.now_ms += 10 * GRACE_MS
    assert not world.copied

    assert world.metadata is not None
    world.metadata = world.metadata.with_recovery()
    assert not world.attempt(has_lost_fences=True).is_cleared
    world.metadata = world.metadata.with_closed_by_recovery((), 9, 0)
    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=10)


def test_after_an_ensemble_change_the_fragments_that_have_an_end_are_enough() -> None:
    world = World(
        ledger(Fragment(0, ABC), Fragment(5, ("d", "b", "c"))), b=ids((0, 9)), c=ids((0, 9))
    )

    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=5)
    assert world.held["a"] == ids((0, 4))


def test_of_an_open_ledger_the_closed_fragments_are_copied_all_the_same() -> None:
    world = World(
        ledger(Fragment(0, ABC), Fragment(5, ("a", "d", "c"))), b=ids((0, 4)), c=ids((0, 9))
    )

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert not end.is_hopeless
    assert world.held["a"] == ids((0, 4))


# ------------------------------------------------------------------ whatever the ledger is


class Case(msgspec.Struct, frozen=True):
    """A ledger, who held what before the loss, and what bookie "a" lost of it."""

    metadata: LedgerMetadata
    before: dict[str, set[int]]
    lost: set[int]
    silent: set[str]


@st.composite
def cases(draw: st.DrawFn, *, kind: LedgerType) -> Case:
    quorum = draw(quorums)
    if kind is VD:
        quorum = Quorum(quorum.ensemble_size, quorum.ensemble_size, quorum.ack_size)
    bookies = "abcdefgh"
    starts = [0, *sorted(draw(st.sets(st.integers(1, 9), max_size=2)))]
    fragments = [
        Fragment(start, tuple(draw(st.permutations(bookies)))[: quorum.ensemble_size])
        for start in starts
    ]
    last = draw(st.integers(starts[-1] - 1, 12))
    metadata = ledger(*fragments, quorum=quorum, kind=kind)
    held: dict[str, set[int]] = {one: set() for one in bookies}
    for entry_id in range(last + 1):
        fragment, _ = metadata.fragment_of(entry_id)
        members = [fragment.bookies[slot] for slot in quorum.write_set(entry_id)]
        for one in draw(st.sets(st.sampled_from(members), min_size=quorum.ack_size)):
            held[one].add(entry_id)
    if draw(st.booleans()):
        metadata = metadata.with_closed(last, 0)
    lost = draw(st.sets(st.sampled_from(sorted(held["a"])))) if held["a"] else set()
    return Case(metadata, held, lost, draw(st.sets(st.sampled_from(bookies[1:]), max_size=1)))


def attempted(case: Case, *, has_lost_fences: bool) -> tuple[World, RecheckResult]:
    world = World(case.metadata, **{one: set(held) for one, held in case.before.items()})
    world.held["a"] -= case.lost
    world.silent = set(case.silent)
    end = world.attempt(has_lost_fences=has_lost_fences)
    assert world.held["a"] >= case.before["a"] - case.lost
    return world, end


@settings(max_examples=100)
@given(cases(kind=PD))
def test_a_ledger_is_cleared_after_a_loss_of_everything_only_when_all_due_is_here(
    case: Case,
) -> None:
    """I24: slow twin: every entry by itself."""
    world, end = attempted(case, has_lost_fences=True)

    metadata = case.metadata
    is_last_ours = not metadata.is_closed and "a" in metadata.last_fragment.bookies
    due = set()
    last = metadata.last_entry_id
    stop = metadata.last_fragment.first_entry_id if last is None else last + 1
    for entry_id in range(stop):
        fragment, _ = metadata.fragment_of(entry_id)
        members = [fragment.bookies[slot] for slot in metadata.quorum.write_set(entry_id)]
        if "a" in members:
            due.add(entry_id)
    assert end.is_cleared == (not is_last_ours and due <= world.held["a"])


@settings(max_examples=100)
@given(cases(kind=VD))
def test_a_ledger_is_cleared_after_an_unclean_stop_only_with_all_that_answering_peers_hold(
    case: Case,
) -> None:
    """I24: slow twin: every entry by itself."""
    world, end = attempted(case, has_lost_fences=False)

    last = case.metadata.last_entry_id
    for entry_id in case.lost:
        if last is not None and entry_id > last:
            continue
        fragment, _ = case.metadata.fragment_of(entry_id)
        others = set(fragment.bookies) - {"a"} - case.silent
        if any(entry_id in world.held[one] for one in others):
            assert entry_id in world.held["a"]
    assert end.is_cleared
    peers = {b for f in case.metadata.fragments if "a" in f.bookies for b in f.bookies}
    assert set(end.silent) <= case.silent & peers


# ------------------------------------------------------------------ many ledgers at once


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 25)))
def test_each_ledger_is_checked_once_and_those_that_are_listed_first(
    left: set[int], listed: set[int]
) -> None:
    order = list(listed_first(_spans(left), sorted(listed)))

    assert order == [*sorted(left & listed), *sorted(left - listed)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_merged_spans_have_the_same_ids(spans: Sequence[Span]) -> None:
    whole = [span for span in spans if span[0] <= span[1]]

    result = merged(whole)

    assert ids(*result) == ids(*whole)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(result))


def _spans(found: set[int]) -> list[Span]:
    return merged((one, one) for one in found)


@given(st.lists(st.booleans(), max_size=30))
def test_the_pause_doubles_with_each_round_since_the_last_that_cleared_a_ledger(
    rounds: list[bool],
) -> None:
    pause_s = ROUND_PAUSE_S
    for has_cleared in rounds:
        pause_s = next_pause_s(pause_s, has_cleared=has_cleared)

    idle_count = ([True, *rounds][::-1]).index(True)
    assert pause_s == min(ROUND_PAUSE_S * 2**idle_count, ROUND_PAUSE_MAX_S)
