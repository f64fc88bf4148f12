"""The re-check of ledgers in limbo: after any loss, of any ledger, and of many at once."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.quorums import quorums
from tests.support.recheck_world import PD, VD, World, ids, ledger
from zbk.durability.limbo_recheck import (
    ROUND_PAUSE_MAX_S,
    ROUND_PAUSE_S,
    LedgerRecheck,
    Patience,
    RecheckResult,
    listed_first,
    next_pause_s,
)
from zbk.errors import MetadataUnavailableError
from zbk.protocol.entry.spans import Span, merged
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum

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
