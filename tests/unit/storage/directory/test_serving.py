"""The note that a bookie serves: whatever is in doubt counts as a possible loss."""

from random import Random

import pytest

from tests.support.damage import cut, flipped
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.storage.directory import serving

PATH = "/l/serving"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def test_golden_text(disk: SimulatedDisk) -> None:
    serving.begin(disk, "/l", "boot-1")

    assert disk.content(PATH) == b"zbk serving 1\nboot-1\n"


def test_a_directory_without_the_note_lost_nothing(disk: SimulatedDisk) -> None:
    assert not serving.is_loss_possible(disk, "/l", "boot-1")
    assert not serving.was_killed(disk, "/l", "boot-1")


def test_a_process_that_was_killed_lost_nothing_of_the_page_cache(disk: SimulatedDisk) -> None:
    serving.begin(disk, "/l", "boot-1")

    assert not serving.is_loss_possible(disk.process_crash(), "/l", "boot-1")
    assert serving.was_killed(disk, "/l", "boot-1")


def test_in_another_boot_something_may_be_lost(disk: SimulatedDisk) -> None:
    serving.begin(disk, "/l", "boot-1")

    assert serving.is_loss_possible(disk.crash(Random(1)), "/l", "boot-2")
    assert not serving.was_killed(disk, "/l", "boot-2")


def test_where_the_boot_is_not_known_something_may_always_be_lost(disk: SimulatedDisk) -> None:
    serving.begin(disk, "/l", "")

    assert serving.is_loss_possible(disk, "/l", "")
    assert not serving.was_killed(disk, "/l", "")


def test_after_a_clean_stop_nothing_is_lost(disk: SimulatedDisk) -> None:
    serving.begin(disk, "/l", "boot-1")
    serving.end(disk, "/l")

    assert not serving.is_loss_possible(disk.crash(Random(1)), "/l", "boot-2")
    assert not serving.was_killed(disk, "/l", "boot-2")


def test_after_a_failed_write_something_may_be_lost_in_the_same_boot(disk: SimulatedDisk) -> None:
    serving.begin(disk, "/l", "boot-1")
    serving.begin(disk, "/l", "")

    assert serving.is_loss_possible(disk, "/l", "boot-1")


def test_whatever_damages_the_note_something_may_be_lost(disk: SimulatedDisk) -> None:
    serving.begin(disk, "/l", "boot-1")
    whole = disk.content(PATH)

    for damaged in [*cut(whole), *(content for _, content in flipped(whole))]:
        disk.set_content(PATH, damaged)
        assert serving.is_loss_possible(disk, "/l", "boot-1")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_step_is_the_last_no_loss_is_overlooked(seed: int) -> None:
    step, has_crashed = 0, True
    while has_crashed:
        step += 1
        disk = SimulatedDisk()
        disk.make_dirs("/l")
        disk.crash_at = disk.operation_count + step
        try:
            serving.begin(disk, "/l", "boot-1")
            serving.begin(disk, "/l", "boot-2")
            has_crashed = False
        except SimulatedCrash:
            pass
        disk.crash(Random(seed * 100 + step))
        assert has_crashed or serving.is_loss_possible(disk, "/l", "boot-3")
        assert serving.is_loss_possible(disk, "/l", "boot-3") == disk.exists(PATH)
        serving.begin(disk, "/l", "boot-3")
        assert not serving.is_loss_possible(disk, "/l", "boot-3")
    assert step > 6
