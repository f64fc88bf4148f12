"""Throttle: the rate holds over time, a pause is not made up for."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.throttle import BURST_MS, Throttle


@given(
    rate=st.integers(1, 10_000_000),
    work=st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 500)), max_size=30),
)
def test_no_more_than_the_rate_and_one_burst_goes(rate: int, work: list[tuple[int, int]]) -> None:
    throttle = Throttle(rate)
    now_ms, done = 0, 0
    for size, pause_ms in work:
        now_ms += pause_ms
        now_ms += throttle.wait_ms(size, now_ms)
        done += size
        assert done <= rate * (now_ms + BURST_MS + len(work)) / 1_000 + size


def test_a_burst_is_not_waited_for() -> None:
    throttle = Throttle(1_000)
    assert [throttle.wait_ms(125, 1_000) for _ in range(3)] == [0, 0, 125]


def test_no_rate_is_no_limit() -> None:
    assert Throttle(0).wait_ms(10**12, 0) == 0


def test_another_rate_counts_from_now_on() -> None:
    throttle = Throttle(1)
    assert throttle.wait_ms(1_000_000, 0) > 900_000_000
    throttle.change(1_000)
    assert throttle.wait_ms(1_000, 0) == 1_000 - BURST_MS
    throttle.change(0)
    assert throttle.wait_ms(1 << 40, 0) == 0
