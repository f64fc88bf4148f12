"""LoneSync against its table of cases and against a twin that keeps everything it was told."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from zbk.durability.lone_sync import QUICK_SYNC_US, SYNC_COUNT, VOLATILE_MS, LoneSync


def lone_sync(*durations_us: int) -> LoneSync:
    found = LoneSync()
    for duration_us in durations_us:
        found.synced(duration_us)
    return found


def test_a_disk_that_was_never_measured_is_not_quick() -> None:
    assert not lone_sync().is_for_writer(0)


@pytest.mark.parametrize(
    ("durations_us", "is_quick"),
    [
        ([QUICK_SYNC_US], True),
        ([QUICK_SYNC_US + 1], False),
        ([1_000_000, *[100] * SYNC_COUNT], True),
        ([1_000_000, *[100] * (SYNC_COUNT - 1)], False),
        ([*[100] * 1_000, 1_000_000], False),
    ],
)
def test_the_last_fsyncs_say_whether_a_disk_is_quick(
    durations_us: list[int], is_quick: bool
) -> None:
    assert lone_sync(*durations_us).is_for_writer(0) is is_quick


def test_a_recent_add_that_was_acknowledged_after_the_write_counts_against_it() -> None:
    rule_of_one = lone_sync(100)
    rule_of_one.written(1_000)

    assert not rule_of_one.is_for_writer(1_000)
    assert not rule_of_one.is_for_writer(1_000 + VOLATILE_MS - 1)
    assert rule_of_one.is_for_writer(1_000 + VOLATILE_MS)


class LoneSyncMachine(RuleBasedStateMachine):
    """The rule beside all that it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.rule = LoneSync()
        self.now_ms = 0
        self.durations_us: list[int] = []
        self.written_ms: list[int] = []

    @rule(duration_us=st.integers(0, 4 * QUICK_SYNC_US))
    def sync(self, duration_us: int) -> None:
        self.rule.synced(duration_us)
        self.durations_us.append(duration_us)

    @rule()
    def write(self) -> None:
        self.rule.written(self.now_ms)
        self.written_ms.append(self.now_ms)

    @rule(passed_ms=st.integers(0, VOLATILE_MS))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @invariant()
    def is_as_the_twin_says(self) -> None:
        last = self.durations_us[-SYNC_COUNT:]
        is_quick = bool(last) and sum(last) / len(last) <= QUICK_SYNC_US
        is_recent = any(self.now_ms - at_ms < VOLATILE_MS for at_ms in self.written_ms)
        assert self.rule.is_for_writer(self.now_ms) is (is_quick and not is_recent)


TestLoneSync = LoneSyncMachine.TestCase
TestLoneSync.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
