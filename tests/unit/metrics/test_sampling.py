"""Rare events are all timed; of frequent ones some, which stand for the others."""

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate, repeat

import pytest

from zbk.metrics.sampling import FREQUENT_COUNT, RARE_US, SHARES, Sampling


def stood_for(sampling: Sampling, times_us: Iterable[int]) -> list[int]:
    """Return for how many each of some events stands: 0 if it is not timed."""
    found = []
    for now_us in times_us:
        is_timed = sampling.left_count == 1
        found.append(sampling.share if is_timed else 0)
        if is_timed:
            sampling.timed(now_us)
        else:
            sampling.left_count -= 1
    return found


def every(gap_us: int, count: int, *, after_us: int = 1_000_000) -> list[int]:
    return list(accumulate(repeat(gap_us, count), initial=after_us))[1:]


def test_rare_events_are_all_timed() -> None:
    assert stood_for(Sampling(), every(RARE_US + 1, 500)) == [1] * 500


def test_frequent_events_are_timed_in_part_and_all_are_stood_for() -> None:
    found = stood_for(Sampling(), every(RARE_US, FREQUENT_COUNT + 1 + 10 * sum(SHARES)))

    first = FREQUENT_COUNT + 1  # the first event follows none
    assert found[:first] == [1] * first
    timed = [count for count in found[first:] if count]
    assert timed == [*SHARES] * 10
    assert sum(found) == len(found)


@pytest.mark.parametrize("period", range(2, 8))
def test_events_that_repeat_are_met_at_each_place(period: int) -> None:
    found = stood_for(Sampling(), every(10, 10_000))
    places = Counter(number % period for number, count in enumerate(found) if count > 1)

    assert set(places) == set(range(period))
    assert max(places.values()) <= 1.1 * min(places.values())


def test_a_short_burst_is_timed_as_a_whole() -> None:
    sampling = Sampling()
    bursts = (every(10, FREQUENT_COUNT, after_us=second * 1_000_000) for second in range(1, 20))

    assert all(set(stood_for(sampling, burst)) == {1} for burst in bursts)


def test_events_that_become_rare_are_all_timed_again() -> None:
    sampling = Sampling()
    stood_for(sampling, every(100, 1_000))
    assert sampling.share in SHARES
    found = stood_for(sampling, every(2 * RARE_US, 100, after_us=10_000_000))

    assert found[-80:] == [1] * 80
