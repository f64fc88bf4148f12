"""When a bookie is read-only, and when it takes entries again."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.config.units import FreeLimit, parse_free
from zbk.storage.directory.disk_space import (
    HOLD_MS,
    DirectorySpace,
    DiskLimits,
    DiskSpace,
    Effect,
    EnterReadOnly,
    LeaveReadOnly,
    MakeReserves,
    Measured,
    NoSpaceMet,
    ReservesMade,
    WarnOfLowSpace,
)

LIMITS = DiskLimits(FreeLimit(size=200), FreeLimit(size=100), margin_size=10)
READONLY_SIZE, WRITABLE_SIZE, WARN_SIZE = 100, 150, 200


def measured(*free_sizes: int, owed_size: int = 0) -> Measured:
    return Measured(
        [DirectorySpace(f"/d{i}", f, 1000, owed_size) for i, f in enumerate(free_sizes)]
    )


def readonly_space(now_ms: int = 0) -> DiskSpace:
    space = DiskSpace(LIMITS)
    space.handle(NoSpaceMet("/d0/x"), now_ms)
    return space


def test_with_enough_space_nothing_is_said() -> None:
    space = DiskSpace(LIMITS)
    assert space.handle(measured(WARN_SIZE, 1000), 0) == []
    assert not space.is_readonly


def test_a_disk_that_fills_is_warned_of_once() -> None:
    space = DiskSpace(LIMITS)
    assert space.handle(measured(1000, 199), 0) == [WarnOfLowSpace("/d1", 199)]
    assert space.handle(measured(1000, 180), 1) == []
    assert space.handle(measured(170, 180), 2) == [WarnOfLowSpace("/d0", 170)]
    assert space.handle(measured(1000, 1000), 3) == []
    assert space.handle(measured(1000, 150), 4) == [WarnOfLowSpace("/d1", 150)]
    assert not space.is_readonly


def test_one_directory_below_the_limit_makes_the_bookie_read_only_once() -> None:
    space = DiskSpace(LIMITS)
    effects = space.handle(measured(1000, READONLY_SIZE - 1), 0)
    assert effects == [EnterReadOnly("99 bytes are free in /d1, less than 100")]
    assert space.is_readonly
    assert space.handle(measured(1000, 5), 1) == []


def test_a_write_that_finds_no_space_makes_the_bookie_read_only_whatever_was_measured() -> None:
    space = DiskSpace(LIMITS)
    space.handle(measured(1000), 0)
    assert space.handle(NoSpaceMet("/d0/x"), 1) == [EnterReadOnly("no space for a write to /d0/x")]
    assert space.handle(NoSpaceMet("/d0/y"), 2) == []


def test_space_just_over_the_limit_is_not_enough_to_come_back() -> None:
    space = DiskSpace(LIMITS)
    space.handle(measured(READONLY_SIZE - 1), 0)
    assert space.handle(measured(WRITABLE_SIZE - 1), 1) == []
    assert space.handle(measured(WRITABLE_SIZE, WRITABLE_SIZE - 1), 2) == []
    assert space.handle(measured(WRITABLE_SIZE), 3) == [MakeReserves()]
    assert space.is_readonly
    assert space.handle(ReservesMade(is_enough=True), 3) == [LeaveReadOnly()]
    assert not space.is_readonly


def test_what_the_reserve_lacks_does_not_count_as_free() -> None:
    space = readonly_space()
    assert space.handle(measured(WRITABLE_SIZE + 49, owed_size=50), HOLD_MS) == []
    assert space.handle(measured(WRITABLE_SIZE + 50, owed_size=50), HOLD_MS) == [MakeReserves()]


def test_after_a_write_that_found_no_space_it_takes_a_while() -> None:
    space = readonly_space(now_ms=10)
    assert space.handle(measured(1000), 10 + HOLD_MS - 1) == []
    assert space.handle(measured(1000), 10 + HOLD_MS) == [MakeReserves()]


def test_a_reserve_that_cannot_be_made_keeps_the_bookie_read_only() -> None:
    space = readonly_space()
    space.handle(measured(1000), HOLD_MS)
    assert space.handle(ReservesMade(is_enough=False), HOLD_MS) == []
    assert space.is_readonly
    assert space.handle(measured(1000), HOLD_MS + 1) == [], "not at once again"
    assert space.handle(measured(1000), 2 * HOLD_MS) == [MakeReserves()]


def test_a_write_that_fails_while_the_reserve_is_made_outweighs_it() -> None:
    space = readonly_space()
    space.handle(measured(1000), HOLD_MS)
    space.handle(NoSpaceMet("/d0/x"), HOLD_MS)
    assert space.handle(ReservesMade(is_enough=True), HOLD_MS) == []
    assert space.is_readonly


def test_limits_may_be_shares_of_each_disk() -> None:
    limits = DiskLimits(parse_free("20%"), parse_free("10%"), margin_size=0)
    space = DiskSpace(limits)
    small, large = DirectorySpace("/s", 15, 100, 0), DirectorySpace("/l", 99, 1000, 0)
    assert space.handle(Measured([small]), 0) == [WarnOfLowSpace("/s", 15)]
    (effect,) = space.handle(Measured([small, large]), 1)
    assert isinstance(effect, EnterReadOnly)
    assert "/l" in effect.reason


def test_without_a_limit_only_a_failed_write_counts_and_the_margin_keeps_it_from_swinging() -> None:
    space = DiskSpace(DiskLimits(FreeLimit(), FreeLimit(), margin_size=40))
    assert space.handle(measured(0), 0) == []
    space.handle(NoSpaceMet("/d0"), 0)
    assert space.handle(measured(39), HOLD_MS) == []
    assert space.handle(measured(40), HOLD_MS) == [MakeReserves()]


@given(
    st.lists(
        st.one_of(
            st.integers(0, 300).map(measured),
            st.just(NoSpaceMet("/d0/x")),
            st.booleans().map(lambda is_enough: ReservesMade(is_enough=is_enough)),
        ),
        max_size=60,
    ),
    st.lists(st.integers(0, HOLD_MS), min_size=60, max_size=60),
)
def test_modes_alternate_and_are_left_only_with_space_and_reserves(
    events: list[Measured | NoSpaceMet | ReservesMade], steps_ms: list[int]
) -> None:
    space, now_ms = DiskSpace(LIMITS), 0
    modes: list[Effect] = []
    free_size, no_space_ms = 0, -HOLD_MS
    for event, step_ms in zip(events, steps_ms, strict=False):
        now_ms += step_ms
        if isinstance(event, Measured):
            free_size = event.directories[0].free_size
        elif isinstance(event, NoSpaceMet):
            no_space_ms = now_ms
        for effect in space.handle(event, now_ms):
            if isinstance(effect, MakeReserves):
                assert free_size >= WRITABLE_SIZE
                assert now_ms >= no_space_ms + HOLD_MS
            elif isinstance(effect, LeaveReadOnly):
                assert isinstance(event, ReservesMade)
                assert event.is_enough
                modes.append(effect)
            elif isinstance(effect, EnterReadOnly):
                modes.append(effect)
        assert space.is_readonly == (len(modes) % 2 == 1)
    assert all(isinstance(m, EnterReadOnly) == (i % 2 == 0) for i, m in enumerate(modes))


def test_other_limits_count_from_the_next_measurement() -> None:
    space = DiskSpace(LIMITS)
    space.change(DiskLimits(FreeLimit(size=20), FreeLimit(size=10), margin_size=1))
    assert space.handle(measured(20), 0) == []
    assert space.handle(measured(9), 1) == [EnterReadOnly("9 bytes are free in /d0, less than 10")]
    space.change(DiskLimits(FreeLimit(size=2), FreeLimit(size=1), margin_size=1))
    assert space.handle(measured(9), 2) == [MakeReserves()]
