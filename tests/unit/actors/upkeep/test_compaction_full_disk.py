"""Compaction on a disk that is full or fails: it leaves nothing behind, and takes no reserve."""

import errno
from random import Random

import pytest

from tests.support.compacted_storage import check, check_clean, disk, half_dead, logs_of, opened
from tests.support.compactions import Compactor
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.compaction_rounds import room_of
from zbk.config import BookieConfig
from zbk.config.units import MIB
from zbk.errors import StorageFailedError
from zbk.storage.directory.disk_reserve import DiskReserve
from zbk.storage.gc.compaction_note import NOTE_NAME

__all__ = ["disk"]


@pytest.mark.parametrize("operation", ["pwrite", "create", "rename"])
@pytest.mark.parametrize("part", [".compacting", f"/l/{NOTE_NAME}"])
def test_a_hundred_failures_for_want_of_space_leave_no_byte(
    disk: SimulatedDisk, operation: str, part: str
) -> None:
    """B31: at each write of the new log and of the note, a hundred times in all."""
    storage = half_dead(disk)
    met: list[str] = []
    storage._on_no_space = met.append
    compactor = Compactor(storage)
    before, logs = disk.used_size, logs_of(disk)
    failure_count = skip_count = 0
    while failure_count < 100:
        fault = Fault(operation, errno.ENOSPC, skip_count=skip_count, path_part=part)
        disk.faults = [fault]
        gone_count = compactor.major()
        if fault in disk.faults:
            break  # it wrote less often than that
        if gone_count == 0:
            assert compactor.rounds.round_counts.gave_up
            assert disk.used_size == before
            assert logs_of(disk) == logs
            check_clean(disk)
            failure_count += 1
            continue
        before, logs = disk.used_size, logs_of(disk)
        skip_count += 1
        break
    assert failure_count
    assert met == [], "nobody else is told"
    disk.faults = []
    compactor.major()
    check(storage, 1, 100)
    assert disk.used_size < before or logs_of(disk) == [7, 8, 9, 10]


def test_without_room_for_the_copies_nothing_is_begun(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage, room_size=500)
    step_count = disk.operation_count

    assert compactor.major() == 0

    assert "no room" in compactor.rounds.round_counts.gave_up
    assert disk.operation_count == step_count


def test_with_little_room_a_log_at_a_time_makes_more(disk: SimulatedDisk) -> None:
    """On a full disk compaction gives back more than it takes."""
    storage = half_dead(disk)
    compactor = Compactor(storage, room_size=2_500)

    assert compactor.major() == 6

    check(storage, 1, 100)


@pytest.mark.parametrize("operation", ["sync", "sync_dir", "pwrite", "rename", "remove"])
def test_a_disk_that_fails_stops_the_bookie_and_loses_nothing(
    disk: SimulatedDisk, operation: str
) -> None:
    skip_count, has_failed = 0, True
    while has_failed:
        disk = SimulatedDisk()
        storage = half_dead(disk)
        fault = Fault(operation, errno.EIO, skip_count=skip_count, path_part="/l")
        disk.faults = [fault]
        try:
            Compactor(storage).major()
            has_failed = False
        except StorageFailedError:
            pass
        disk.crash(Random(skip_count)) if skip_count % 2 else disk.process_crash()
        storage = opened(disk)
        check(storage, 1, 100)
        skip_count += 1
    assert skip_count > 3


@pytest.mark.parametrize(
    ("is_readonly", "is_reserve_held", "room_size"),
    [(False, True, 512 * MIB), (True, True, 1024 * MIB), (True, False, 1008 * MIB)],
)
def test_copies_take_no_reserve_and_make_no_bookie_read_only(
    disk: SimulatedDisk, is_readonly: bool, is_reserve_held: bool, room_size: int
) -> None:
    disk.make_dirs("/l")
    reserve = DiskReserve(disk, "/l", 16 * MIB)
    disk.capacity = 1024 * MIB
    if is_reserve_held:
        disk.capacity += 16 * MIB
        assert reserve.make()
    gate = SpaceGate("b")
    gate.is_readonly = is_readonly
    config = BookieConfig(disk_readonly_free="512 MiB")

    found = room_of("/l", files=disk, reserves=[reserve], gate=gate, config=config)

    assert found == room_size
