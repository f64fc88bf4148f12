"""Which logs are compacted, and when."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.upkeep.compaction import (
    CompactionClock,
    CompactionKind,
    CompactionLimits,
    LogShare,
    Win,
    candidates,
    choose_sources,
    win_of,
)

MINOR, MAJOR = CompactionKind.MINOR, CompactionKind.MAJOR
ROOM = 1 << 60


def log(log_id: int, live_size: int, entry_size: int = 100, *, is_whole: bool = True) -> LogShare:
    return LogShare(log_id, entry_size, live_size, is_whole)


def chosen(
    *logs: LogShare, threshold: float = 0.8, size_max: int = 1_000, room: int = ROOM
) -> list[int]:
    sources = choose_sources(logs, threshold, target_size_max=size_max, room_size=room)
    return [one.log_id for one in sources]


def test_the_deadest_log_is_the_first() -> None:
    assert chosen(log(1, 70), log(2, 10), log(3, 90), log(4, 10)) == [2, 4, 1]


def test_a_log_at_the_threshold_stays() -> None:
    assert chosen(log(1, 80), log(2, 79)) == [2]
    assert chosen(log(1, 0), threshold=0) == []


def test_a_damaged_log_stays() -> None:
    assert chosen(log(1, 0, is_whole=False)) == []
    assert win_of([log(1, 0, is_whole=False)], 0.8) == Win()


def test_a_log_without_entries_goes() -> None:
    assert chosen(LogShare(1, 0, 0, is_whole=True)) == [1]


def test_together_they_fit_into_one_log() -> None:
    assert chosen(log(1, 40), log(2, 50), log(3, 30), size_max=100) == [3, 1]
    assert chosen(log(1, 500, 900), log(2, 0), size_max=100) == [2, 1]
    assert chosen(log(1, 500, 900), log(2, 700, 900), size_max=100) == [1]


def test_what_has_no_room_is_left_and_smaller_ones_go() -> None:
    assert chosen(log(1, 400, 1_000), log(2, 50), log(3, 0), room=60) == [3, 2]
    assert chosen(log(1, 400, 1_000), room=0) == []
    assert chosen(log(3, 0), room=0) == [3]


def test_a_win_is_what_is_dead() -> None:
    assert win_of([log(1, 70), log(2, 10), log(3, 90)], 0.8) == Win(2, 120)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.booleans()), max_size=20),
    st.floats(0, 1),
    st.integers(1, 300),
    st.integers(0, 300),
)
def test_nothing_is_chosen_that_may_not_be(
    sizes: list[tuple[int, int, bool]], threshold: float, size_max: int, room: int
) -> None:
    logs = [
        LogShare(at, max(one, other), min(one, other), is_whole)
        for at, (one, other, is_whole) in enumerate(sizes)
    ]
    sources = choose_sources(logs, threshold, target_size_max=size_max, room_size=room)
    assert all(one.is_whole and one.live_share < threshold for one in sources)
    live = [one.live_size for one in sources if one.live_size]
    assert sum(live) <= room
    assert sum(live) <= size_max or len(live) == 1
    if not sources:
        assert all(one.live_size > room for one in candidates(logs, threshold))


def test_each_kind_is_due_an_interval_after_it_was_there() -> None:
    clock = CompactionClock(CompactionLimits(0.2, 10, 0.8, 100), now_ms=1_000)
    assert clock.due(1_009) is None
    assert clock.due(1_010) is MINOR
    clock.ended(MINOR, 1_015)
    assert clock.due(1_024) is None
    assert clock.due(1_025) is MINOR
    assert clock.due(1_100) is MAJOR
    clock.ended(MAJOR, 1_100)
    assert clock.due(1_109) is None, "major has done what minor would"


def test_zero_is_off() -> None:
    assert CompactionClock(CompactionLimits(0, 10, 0, 10), 0).due(1 << 40) is None
    assert CompactionClock(CompactionLimits(0.2, 0, 0.8, 0), 0).due(1 << 40) is None
    assert CompactionClock(CompactionLimits(0.2, 10, 0.8, 0), 0).due(1 << 40) is MINOR


def test_other_limits_count_from_the_last_compaction() -> None:
    clock = CompactionClock(CompactionLimits(0, 0, 0, 0), now_ms=1_000)
    assert clock.due(1 << 40) is None
    clock.change(CompactionLimits(0.2, 10, 0, 0))
    assert clock.due(1_009) is None
    assert clock.due(1_010) is MINOR
