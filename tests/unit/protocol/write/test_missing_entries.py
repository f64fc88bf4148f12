"""What is missing at which bookie, against sets of entry ids."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.entry.spans import Span
from zbk.protocol.repair.underreplicated import RANGES_COUNT_MAX
from zbk.protocol.write.missing_entries import MissingEntries, without

BOOKIES = ("a", "b")
ID_MAX = 30

spans = st.tuples(st.integers(0, ID_MAX), st.integers(0, ID_MAX)).map(
    lambda ends: (min(ends), max(ends))
)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "reported"]), st.sampled_from(BOOKIES), spans),
    max_size=20,
)


def ids_of(ranges: Sequence[Span]) -> set[int]:
    return {one for first, last in ranges for one in range(first, last + 1)}


def check_form(ranges: Sequence[Span]) -> None:
    """Ranges ascend, and there is a gap between two of them."""
    assert all(first <= last for first, last in ranges)
    assert all(one[1] + 1 < two[0] for one, two in pairwise(ranges))


def test_a_single_entry_that_is_left_of_a_range_stays() -> None:
    assert without(((0, 2),), 1, 1) == ((0, 0), (2, 2))
    assert without(((5, 5),), 6, 9) == ((5, 5),)
    assert without(((5, 5),), 5, 5) == ()


@given(steps, st.integers(0, ID_MAX))
def test_it_is_as_sets_of_ids_would_have_it(
    steps: list[tuple[str, str, Span]], last_entry_id: int
) -> None:
    assert ID_MAX / 2 < RANGES_COUNT_MAX, "no gap is closed for want of room"
    missing = MissingEntries()
    held: dict[str, set[int]] = {one: set() for one in BOOKIES}
    told: dict[str, set[int]] = {one: set() for one in BOOKIES}
    for what, bookie_id, (first, last) in steps:
        ids = set(range(first, last + 1))
        match what:
            case "add":
                missing.add(bookie_id, first, last)
                held[bookie_id] |= ids
            case _:
                missing.reported({bookie_id: [(first, last)]})
                told[bookie_id] |= ids

    up_to = set(range(last_entry_id + 1))
    for found, expected in (
        (missing.by_bookie, held),
        (missing.up_to(last_entry_id), {one: ids & up_to for one, ids in held.items()}),
        (
            missing.unreported(last_entry_id),
            {one: (ids & up_to) - told[one] for one, ids in held.items()},
        ),
    ):
        assert {one: ids_of(ranges) for one, ranges in found.items()} == {
            one: ids for one, ids in expected.items() if ids
        }
        for ranges in found.values():
            check_form(ranges)
    assert set(missing.unreported(ID_MAX, leave_out=["a"])) <= {"b"}
