"""Locations: log id and offset in one number, and many of them at once."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.storage.entry_logs.location import (
    ABSENT,
    LOG_ID_MAX,
    OFFSET_MAX,
    entry_locations,
    location_of,
    split_location,
)


@given(log_id=st.integers(1, LOG_ID_MAX), offset=st.integers(0, OFFSET_MAX))
def test_a_location_can_be_taken_apart(log_id: int, offset: int) -> None:
    location = location_of(log_id, offset)

    assert split_location(location) == (log_id, offset)
    assert ABSENT < location < 2**64


@pytest.mark.parametrize(("log_id", "offset"), [(0, 0), (LOG_ID_MAX + 1, 0), (1, OFFSET_MAX + 1)])
def test_what_does_not_fit_is_a_bug(log_id: int, offset: int) -> None:
    with pytest.raises(AssertionError):
        location_of(log_id, offset)


@given(
    base=st.integers(1, 2**63),
    sizes=st.one_of(
        st.lists(st.integers(40, 2**20), min_size=1, max_size=40),
        st.tuples(st.integers(40, 2**20), st.integers(1, 40)).map(lambda t: [t[0]] * t[1]),
    ),
)
def test_locations_are_running_sums(base: int, sizes: list[int]) -> None:
    wanted = [base + sum(sizes[:n]) for n in range(len(sizes))]

    assert entry_locations(base, array("I", sizes)).tolist() == wanted


@pytest.mark.parametrize("count", [1, 2, 8191, 8192, 8193, 20_000])
def test_long_uniform_rows_are_running_sums_too(count: int) -> None:
    base = location_of(LOG_ID_MAX, 1)

    found = entry_locations(base, array("I", [148]) * count)

    assert found == array("Q", range(base, base + 148 * count, 148))
