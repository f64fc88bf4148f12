"""A copy that is made at a step of a run is what a crash at that step leaves."""

import pytest

from tests.support.compacted_storage import opened
from tests.support.compactions import Compactor
from tests.support.crash_points import copy_of, left_by_crashes
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.support.storage_lives import ACTS, Life
from tests.unit.actors.upkeep.test_compaction_crashes import (
    SMALL_LOG,
    left_by_compaction,
    small_disk,
)

pytestmark = pytest.mark.usefixtures("same_nonce")

STRIDE = 13


def live(life: Life) -> None:
    for act in ACTS:
        act(life)


def test_a_life_that_goes_on_has_done_what_one_that_crashes_has() -> None:
    whole = Life(SimulatedDisk())
    left = left_by_crashes(whole.disk, lambda: live(whole), whole.stopped)
    assert len(left) > 500
    for step in range(1, len(left), STRIDE):
        crashed = Life(SimulatedDisk())
        crashed.disk.crash_at = step
        with pytest.raises(SimulatedCrash):
            live(crashed)
        assert crashed.state() == left[step - 1].state(), f"step {step}"
        assert crashed.disk.operation_count == left[step - 1].disk.operation_count
    assert left[-1].state() == whole.state()


def test_so_has_a_compaction() -> None:
    base = small_disk()
    left = left_by_compaction(base)
    for step, one in enumerate(left[:-1], 1):
        crashed = copy_of(base)
        compactor = Compactor(opened(crashed, log_size_max=SMALL_LOG))
        crashed.crash_at = crashed.operation_count + step
        with pytest.raises(SimulatedCrash):
            compactor.major()
        assert crashed.state() == one.state(), f"step {step}"


def test_copies_are_made_at_the_steps_that_are_asked_for() -> None:
    disk = SimulatedDisk()

    def call() -> None:
        for _ in range(9):
            disk.step()

    assert left_by_crashes(disk, call, lambda: disk.operation_count) == [*range(1, 10), 9]
    start = disk.operation_count
    left = left_by_crashes(disk, call, lambda: disk.operation_count, first=3, stride=4)
    assert [one - start for one in left] == [3, 7, 9]
    assert disk.at_step is None
