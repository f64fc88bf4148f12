"""When a checkpoint is due, and a slow twin that reads it from the whole history."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.upkeep.checkpoint import (
    JOURNAL_FACTOR,
    MANY_LEDGER_COUNT,
    PAUSE_FACTOR,
    PAUSE_MAX_MS,
    CheckpointSchedule,
)

INTERVAL_MS = 1_000
JOURNAL_SIZE = 500


def schedule() -> CheckpointSchedule:
    return CheckpointSchedule(interval_ms=INTERVAL_MS, journal_size=JOURNAL_SIZE, now_ms=0)


def run(one: CheckpointSchedule, now_ms: int, *, took_ms: int, ledger_count: int = 1) -> None:
    one.run(now_ms, ledger_count)
    one.ended(now_ms + took_ms)


def test_one_is_due_after_the_interval_if_anything_was_written() -> None:
    one = schedule()
    assert not one.take_due(INTERVAL_MS, 0, is_memory_short=True)
    assert not one.take_due(INTERVAL_MS - 1, 1, is_memory_short=False)
    assert one.take_due(INTERVAL_MS, 1, is_memory_short=False)
    assert not one.take_due(2 * INTERVAL_MS, 1, is_memory_short=True)


def test_bytes_and_memory_do_not_wait_for_the_interval() -> None:
    one = schedule()
    assert not one.take_due(1, JOURNAL_SIZE - 1, is_memory_short=False)
    assert one.take_due(1, JOURNAL_SIZE, is_memory_short=False)
    assert one.take_due(2, JOURNAL_SIZE + 1, is_memory_short=True)


def test_one_that_took_long_rests_as_often_as_long_but_not_for_ever() -> None:
    for took_ms in (2 * INTERVAL_MS, PAUSE_MAX_MS):
        one = schedule()
        assert one.take_due(INTERVAL_MS, 1, is_memory_short=False)
        run(one, INTERVAL_MS, took_ms=took_ms)
        due_ms = INTERVAL_MS + min(PAUSE_FACTOR * took_ms, PAUSE_MAX_MS)
        assert not one.take_due(due_ms - 1, 2, is_memory_short=False)
        assert one.take_due(due_ms, 2, is_memory_short=False)


def test_after_one_of_many_ledgers_more_bytes_may_be_written() -> None:
    one = schedule()
    assert one.take_due(INTERVAL_MS, 1, is_memory_short=False)
    run(one, INTERVAL_MS, took_ms=1, ledger_count=MANY_LEDGER_COUNT)
    size = 1 + JOURNAL_FACTOR * JOURNAL_SIZE
    assert not one.take_due(INTERVAL_MS + 1, size - 1, is_memory_short=False)
    assert one.take_due(INTERVAL_MS + 1, size, is_memory_short=False)


def test_one_that_found_no_space_is_due_again_without_new_bytes() -> None:
    one = schedule()
    assert one.take_due(INTERVAL_MS, 7, is_memory_short=False)
    one.postponed()
    assert not one.take_due(INTERVAL_MS + 1, 7, is_memory_short=False)
    assert one.take_due(2 * INTERVAL_MS, 7, is_memory_short=False)


class Twin:
    """Looks for the last of each kind in all that ever happened."""

    def __init__(self) -> None:
        self.history: list[tuple[Any, ...]] = [("due", 0, 0), ("ran", 0, 0)]

    def last(self, kind: str) -> tuple[Any, ...]:
        return next(one for one in reversed(self.history) if one[0] == kind)

    def is_due(self, now_ms: int, size: int, *, is_memory_short: bool) -> bool:
        _, due_ms, due_size = self.last("due")
        _, took_ms, ledger_count = self.last("ran")
        kinds = [one[0] for one in self.history]
        is_postponed = "postponed" in kinds[len(kinds) - kinds[::-1].index("due") :]
        new_size = size + 1 if is_postponed else size - due_size
        if not new_size:
            return False
        if is_memory_short or new_size >= JOURNAL_SIZE * (1 + 5 * (ledger_count >= 1_000)):
            return True
        return bool(now_ms >= due_ms + max(1_000, min(15 * took_ms, 60_000)))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 400, 1_000, 20_000]),  # time that passes
            st.sampled_from([0, 1, 300, 3_000]),  # bytes that are written
            st.booleans(),  # memory is short
            st.sampled_from([None, (0, 1), (100, 1_000), (5_000, 999)]),  # duration and ledgers
        ),
        max_size=20,
    )
)
def test_the_schedule_decides_as_its_twin(steps: list[tuple[int, int, bool, Any]]) -> None:
    one, twin = schedule(), Twin()
    now_ms = size = 0
    for pause_ms, written, is_short, end in steps:
        now_ms, size = now_ms + pause_ms, size + written
        expected = twin.is_due(now_ms, size, is_memory_short=is_short)
        assert one.take_due(now_ms, size, is_memory_short=is_short) is expected
        if expected:
            twin.history.append(("due", now_ms, size))
            if end is None:
                one.postponed()
                twin.history.append(("postponed",))
            else:
                run(one, now_ms, took_ms=end[0], ledger_count=end[1])
                twin.history.append(("ran", *end))
                now_ms += end[0]


def test_another_interval_and_other_bytes_count_from_now_on() -> None:
    one = schedule()
    one.change(interval_ms=10, journal_size=50)
    assert not one.take_due(9, 49, is_memory_short=False)
    assert one.take_due(9, 50, is_memory_short=False)
    assert one.take_due(19, 51, is_memory_short=False)
