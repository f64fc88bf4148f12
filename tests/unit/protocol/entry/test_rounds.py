"""Ids in rounds: what runs over all ids at once has the results of a loop over each."""

from array import array
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zbk.protocol.entry.rounds import (
    gather,
    ids_in_rounds,
    is_ascending,
    is_in_rounds,
    rounds_of,
    scatter,
)
from zbk.protocol.ledger.quorum import Quorum

ID_MAX = 2**63 - 1

ids = st.lists(st.integers(0, ID_MAX), min_size=1, max_size=12)
ascending_ids = st.sets(st.integers(0, 40), min_size=1).map(lambda found: array("q", sorted(found)))


@st.composite
def _striped_ids(draw: st.DrawFn) -> "array[int]":
    """The ids of one slot in a range, as the definition of a write set has them."""
    ensemble_size = draw(st.integers(2, 9))
    quorum = Quorum(ensemble_size, draw(st.integers(1, ensemble_size - 1)), 1)
    slot = draw(st.integers(0, ensemble_size - 1))
    first = draw(st.integers(0, 2**40) | st.integers(0, 20))
    last = first + draw(st.integers(0, 60))
    return array("q", [e for e in range(first, last + 1) if quorum.holds(slot, e)])


STRIPED_IDS = _striped_ids().filter(len)


@given(found=ids)
@example(found=[0, ID_MAX])
@example(found=[ID_MAX, ID_MAX])
def test_ids_ascend_or_not(found: list[int]) -> None:
    assert is_ascending(array("q", found)) == all(a < b for a, b in pairwise(found))


@given(found=ids, place=st.integers(0, 11), negative=st.integers(-(2**63), -1))
def test_a_negative_id_is_none(found: list[int], place: int, negative: int) -> None:
    found = sorted(set(found))
    found[place % len(found)] = negative

    assert not is_ascending(array("q", found))


@pytest.mark.parametrize("count", [1, 8191, 8192, 8193, 20_000])
def test_an_id_out_of_order_is_found_in_long_lists_too(count: int) -> None:
    found = array("q", range(5, 5 + count))
    assert is_ascending(found)
    for place in {count // 2, count - 1}:
        wrong = found[:]
        wrong[place] = 4 if place else -1
        assert not is_ascending(wrong)


@given(found=STRIPED_IDS | ascending_ids, size=st.integers(1, 9), step=st.integers(1, 9))
def test_rounds_are_what_they_say(found: "array[int]", size: int, step: int) -> None:
    expected = all(b - a == step for a, b in zip(found, found[size:], strict=False))

    assert is_in_rounds(found, size, step) == expected


@given(found=STRIPED_IDS)
def test_the_ids_of_a_slot_are_in_rounds(found: "array[int]") -> None:
    gaps = [place for place, (a, b) in enumerate(pairwise(found)) if b - a > 1]

    rounds = rounds_of(found)

    assert (rounds is None) == (len(gaps) < 2)
    if rounds is not None:
        assert rounds.size == gaps[1] - gaps[0]
        runs = list(rounds.runs(found))
        assert [e for a, b in runs for e in range(a, b + 1)] == found.tolist()
        assert len(runs) == len(gaps) + 1


@given(found=ascending_ids)
def test_ids_that_do_not_repeat_are_in_no_rounds(found: "array[int]") -> None:
    rounds = rounds_of(found)

    if rounds is not None:
        assert all(b - a == rounds.step for a, b in zip(found, found[rounds.size :], strict=False))


@pytest.mark.parametrize("last", [60, 8190, 8191, 8192, 30_000])
@pytest.mark.parametrize("first", [0, 3, 2**40])
def test_the_ids_of_a_slot_are_those_of_the_definition(first: int, last: int) -> None:
    quorum = Quorum(5, 3, 2)
    for slot in range(5):
        found = quorum.entry_ids(slot, first, first + last)

        assert list(found) == [e for e in range(first, first + last + 1) if quorum.holds(slot, e)]


def test_ids_in_rounds_end_before_the_stop() -> None:
    assert ids_in_rounds([7], 3, 8).tolist() == [7]
    assert ids_in_rounds([7, 8], 3, 8).tolist() == [7]


@given(found=STRIPED_IDS | ascending_ids, below=st.integers(0, 5), above=st.integers(0, 5))
def test_values_are_gathered_and_scattered(found: "array[int]", below: int, above: int) -> None:
    base = found[0] - below
    values = array("Q", range(10, 10 + found[-1] - base + 1 + above))
    expected = [values[one - base] for one in found]

    assert gather(values, found, base, rounds_of(found)).tolist() == expected

    news = array("Q", range(1000, 1000 + len(found)))
    by_loop = values[:]
    for one, new in zip(found, news, strict=True):
        by_loop[one - base] = new
    scatter(values, found, base, news)
    assert values == by_loop
