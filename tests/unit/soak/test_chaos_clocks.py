"""How the times that a metadata store wrote down are brought to those of the processes."""

from itertools import count

from tests.chaos.metadata_history import offset_ns

OFFSET_NS = 1_000_000_000
LOOK_NS, STOP_NS = 100, 30_000_000


def test_a_process_that_is_stopped_between_two_clocks_moves_no_time() -> None:
    now_ns = 0
    numbers = count()

    def look_ns() -> int:
        """Most looks at three clocks, and the first ones, are interrupted somewhere."""
        nonlocal now_ns
        number = next(numbers)
        is_stopped = number // 3 % 5 != 4 and number % 3 == number // 3 % 3
        now_ns += STOP_NS if is_stopped else LOOK_NS
        return now_ns

    found_ns = offset_ns(lambda: OFFSET_NS + look_ns(), look_ns)

    assert abs(found_ns - OFFSET_NS) <= LOOK_NS
