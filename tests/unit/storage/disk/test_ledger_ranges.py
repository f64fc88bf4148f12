"""LedgerRanges against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.storage.disk.ledger_ranges import LedgerRanges, is_in_order

id_sets = st.sets(st.integers(0, 60), max_size=40)


@given(some=id_sets, others=id_sets)
def test_it_is_the_set_of_all_ids_that_were_put_in(some: set[int], others: set[int]) -> None:
    ranges = LedgerRanges().with_ids(some).with_ids(others)

    both = some | others
    assert {one for one in range(-1, 62) if one in ranges} == both
    assert ranges.ledger_count == len(both)
    assert ranges.range_count == len(both - {one + 1 for one in both})
    assert is_in_order(ranges.firsts, ranges.lasts)
    left = ranges.without(LedgerRanges().with_ids(others))
    assert left == LedgerRanges().with_ids(some - others)


@given(ids=id_sets, count_max=st.integers(0, 60))
def test_the_ids_between_ranges_merge_them(ids: set[int], count_max: int) -> None:
    ranges = LedgerRanges().with_ids(ids)

    gap_ids = ranges.gap_ids(count_max)

    assert len(gap_ids) <= count_max
    assert not any(one in ranges for one in gap_ids)
    assert all(min(ids) < one < max(ids) for one in gap_ids)
    merged = ranges.with_ids(gap_ids)
    assert merged.range_count == ranges.range_count - len(
        [one for one in gap_ids if one + 1 not in gap_ids]
    )


def test_bounds_that_overlap_touch_or_go_back_are_not_in_order() -> None:
    assert is_in_order((), ())
    assert is_in_order((0, 5), (3, 5))
    assert not is_in_order((0, 4), (3, 5))
    assert not is_in_order((0, 2), (3, 5))
    assert not is_in_order((5, 0), (6, 3))
    assert not is_in_order((3,), (2,))
    assert not is_in_order((-1,), (2,))
