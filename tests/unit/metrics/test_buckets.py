"""A histogram counts many durations at once as it counts each of them."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.metrics.buckets import Buckets
from zbk.metrics.metric import LATENCY_BOUNDS_US

NEAR_BOUNDS = [bound + step for bound in LATENCY_BOUNDS_US for step in (-1, 0, 1)]


@given(st.lists(st.sampled_from([0, *NEAR_BOUNDS, 10**9])), st.integers(1, 8))
def test_many_at_once_are_counted_as_each_of_them(durations_us: list[int], count: int) -> None:
    at_once, singly = Buckets(), Buckets()
    at_once.observe_all(durations_us, count)
    for duration_us in durations_us:
        singly.observe(duration_us, count)

    assert (at_once.counts, at_once.sum_us) == (singly.counts, singly.sum_us)
