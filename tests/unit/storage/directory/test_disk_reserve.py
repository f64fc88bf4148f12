"""Space that is held back for a full disk."""

import errno

import pytest

from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.storage.directory.disk_reserve import DiskReserve


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    return disk


def test_a_reserve_takes_its_space_and_gives_it_back(disk: SimulatedDisk) -> None:
    reserve = DiskReserve(disk, "/d", 1000)
    assert (reserve.is_held, reserve.owed_size) == (False, 1000)

    assert reserve.make()
    assert (reserve.is_held, reserve.owed_size) == (True, 0)
    assert disk.used_size == 1000

    reserve.release()
    assert (reserve.is_held, reserve.owed_size) == (False, 1000)
    assert disk.used_size == 0
    reserve.release()


def test_without_room_for_all_of_it_nothing_is_taken(disk: SimulatedDisk) -> None:
    disk.capacity = 999
    reserve = DiskReserve(disk, "/d", 1000)
    assert not reserve.make()
    assert not reserve.is_held
    assert disk.used_size == 0


@pytest.mark.parametrize("size", [500, 2000])
def test_what_an_earlier_life_left_is_used(disk: SimulatedDisk, size: int) -> None:
    assert DiskReserve(disk, "/d", size).make()
    assert DiskReserve(disk, "/d", 1000).make()
    assert disk.used_size == 1000


def test_another_failure_is_not_taken_for_a_full_disk(disk: SimulatedDisk) -> None:
    disk.faults = [Fault("allocate", errno.EIO)]
    with pytest.raises(OSError, match="simulated"):
        DiskReserve(disk, "/d", 1000).make()


def test_none_is_wanted(disk: SimulatedDisk) -> None:
    reserve = DiskReserve(disk, "/d", 0)
    assert reserve.make()
    reserve.release()
    assert reserve.is_held
    assert disk.paths() == []


def test_it_knows_its_directory(disk: SimulatedDisk) -> None:
    reserve = DiskReserve(disk, "/d", 1000)
    assert reserve.holds("/d/logs/1")
    assert reserve.holds("/d")
    assert not reserve.holds("/data/1")
