"""The pace of a scrub: short goes, and a rate that holds whatever waits come between."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.throttle import BURST_MS
from zbk.protocol.upkeep.scrub_pace import ScrubPace

RATE_SIZE = 1_000


def test_a_go_is_over_when_so_much_was_read() -> None:
    pace = ScrubPace(RATE_SIZE, 100)
    pace.begin_burst()
    pace.read(99)
    assert not pace.is_burst_over
    pace.read(1)
    assert pace.is_burst_over
    pace.begin_burst()
    assert not pace.is_burst_over


def test_a_rest_pays_for_what_was_read_before_a_wait() -> None:
    pace = ScrubPace(RATE_SIZE, 100)
    pace.read(BURST_MS)
    pace.begin_burst()
    pace.read(1_000)
    assert pace.rest_ms(0) == 1_000
    assert pace.rest_ms(1_000) == 0


def test_without_a_rate_there_is_no_rest() -> None:
    pace = ScrubPace(0, 100)
    pace.read(1 << 40)
    assert pace.rest_ms(0) == 0


@given(st.lists(st.tuples(st.integers(0, 500), st.booleans(), st.integers(0, 400)), max_size=40))
def test_a_pass_reads_no_faster_than_its_rate(steps: list[tuple[int, bool, int]]) -> None:
    """The twin is one sum: all bytes over the whole time, but for one burst and one debt."""
    pace = ScrubPace(RATE_SIZE, 300)
    now_ms = read_size = unpaid_size = 0
    pace.begin_burst()
    for size, is_wait, wait_ms in steps:
        pace.read(size)
        read_size += size
        unpaid_size += size
        if is_wait:
            now_ms += wait_ms
            pace.begin_burst()
        elif pace.is_burst_over:
            now_ms += pace.rest_ms(now_ms)
            unpaid_size = 0
            pace.begin_burst()
        allowed_size = RATE_SIZE * (now_ms + BURST_MS) // 1_000
        assert read_size - unpaid_size <= allowed_size


def test_another_rate_counts_from_the_next_rest() -> None:
    pace = ScrubPace(1, 100)
    pace.change(RATE_SIZE)
    pace.read(1_000)
    assert pace.rest_ms(0) == 1_000 - BURST_MS
