"""What a bookie says that it holds, page by page, against what is due on it."""

from collections.abc import Collection, Iterator

from hypothesis import given
from hypothesis import strategies as st

from tests.support.audit_ledgers import ledger
from tests.support.replica_world import held
from zbk.protocol.entry.spans import Span
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.holdings import HeldPages, Holdings, HoldingsComparison
from zbk.protocol.repair.underreplicated import RANGES_COUNT_MAX

ENTRY_COUNT = 60


def pages(entries: Collection[int], first: int, range_count: int) -> tuple[list[Span], int | None]:
    """Return a page as a bookie tells it."""
    found = held(entries, first, max(entries, default=0))
    more = found[range_count:]
    return list(found[:range_count]), more[0][0] if more else None


def compare(
    metadata: LedgerMetadata, bookie_id: str, entries: Collection[int], range_count: int = 1_000
) -> HoldingsComparison:
    comparison = HoldingsComparison(metadata, bookie_id)
    while comparison.next_entry_id is not None:
        comparison.add(*pages(entries, comparison.next_entry_id, range_count))
    return comparison


def due(metadata: LedgerMetadata, bookie_id: str) -> Iterator[int]:
    """Yield what a bookie should hold of a closed ledger, entry by entry."""
    assert metadata.last_entry_id is not None
    for entry_id in range(metadata.last_entry_id + 1):
        fragment, _end = metadata.fragment_of(entry_id)
        slots = metadata.quorum.write_set(entry_id)
        if bookie_id in (fragment.bookies[slot] for slot in slots):
            yield entry_id


def test_holdings_are_compared_fragment_by_fragment() -> None:
    """B43: the ranges of an index show every hole."""
    two = ledger(7, ("a", "b"), ("b", "c"), starts=(0, 6), last=9)

    assert compare(two, "b", {0, 1, 2, 3, 5, 6, 7, 8, 9}).missing == ((4, 4),)
    assert compare(two, "a", range(6)).missing == ()
    assert compare(two, "c", ()).missing == ((6, 9),)


def test_what_lies_behind_a_hole_of_a_vd_ledger_is_there() -> None:
    """Its sync cursor stops at the hole; what it tells is on stable storage all the same."""
    vd = ledger(7, ("a", "b"), last=99, ledger_type=LedgerType.VD_JOURNAL)

    assert compare(vd, "a", set(range(100)) - set(range(57, 80))).missing == ((57, 79),)


def test_what_nobody_can_have_missed_is_not_asked_for() -> None:
    two = ledger(7, ("a", "b"), ("c", "d"), ("a", "d"), starts=(0, 6, 50), last=99)
    comparison = HoldingsComparison(two, "a")

    comparison.add([(0, 5)], 7)

    assert comparison.next_entry_id == 50, "not the fragment without it"
    assert HoldingsComparison(ledger(8, ("a", "b"), last=None), "a").next_entry_id is None


def test_thousands_of_holes_are_counted_and_take_no_more_memory_than_some() -> None:
    every_second = ledger(7, ("a", "b"), last=199_999)
    comparison = HoldingsComparison(every_second, "a")
    kept_max = 0
    while (first := comparison.next_entry_id) is not None:
        ranges = [(one, one) for one in range(first, min(first + 2_000, 200_000), 2)]
        stop = first + 2_000
        comparison.add(ranges, stop if stop < 200_000 else None)
        kept_max = max(kept_max, len(comparison._missing))

    assert comparison.missing_count == 100_000
    assert len(comparison.missing) == RANGES_COUNT_MAX
    assert (comparison.missing[0][0], comparison.missing[-1][1]) == (1, 199_999)
    assert kept_max <= 2 * RANGES_COUNT_MAX


@given(
    entries=st.sets(st.integers(0, ENTRY_COUNT - 1)),
    range_count=st.integers(1, 4),
    write_quorum_size=st.sampled_from([2, 3]),
    bookie_id=st.sampled_from("abcd"),
)
def test_any_pages_show_each_hole(
    entries: set[int], range_count: int, write_quorum_size: int, bookie_id: str
) -> None:
    three = ledger(
        7,
        ("a", "b", "c"),
        ("a", "d", "c"),
        ("d", "b", "a"),
        starts=(0, 20, 35),
        last=ENTRY_COUNT - 1,
        write_quorum_size=write_quorum_size,
    )
    wanted = set(due(three, bookie_id))

    found = compare(three, bookie_id, entries, range_count)

    missing = wanted - entries
    told = {entry_id for first, last in found.missing for entry_id in range(first, last + 1)}
    assert told & wanted == missing
    assert found.missing_count == len(missing)


def test_pages_are_asked_for_up_to_the_end_of_the_span() -> None:
    collected = HeldPages((3, 20))
    assert collected.next_entry_id == 3
    collected.add([(3, 5), (7, 9)], 12)
    assert (collected.next_entry_id, collected.holdings.last_entry_id) == (12, 11)
    collected.add([(12, 25)], 26, is_in_limbo=True)
    assert collected.next_entry_id is None, "the next page begins after the span"
    assert collected.holdings == Holdings(((3, 5), (7, 9), (12, 25)), is_in_limbo=True)


def test_an_empty_span_needs_no_page() -> None:
    assert HeldPages((3, 2)).next_entry_id is None


def test_full_pages_say_how_far_they_are_complete() -> None:
    collected = HeldPages((0, 20), range_count_max=2)
    collected.add([(0, 0)], 2)
    assert not collected.is_full
    collected.add([(2, 2)], 4)
    assert collected.is_full
    assert collected.holdings == Holdings(((0, 0), (2, 2)), last_entry_id=3)
