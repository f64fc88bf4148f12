"""The ledgers that are taken in no more: whole or not at all on the disk, and bounded."""

import errno
from random import Random

import pytest

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import CookieMismatchError, CorruptRecordError, StorageFailedError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.index.deleted_ledgers import DeletedLedgers

PATH = "/l/deleted_ledgers"


def opened(
    disk: SimulatedDisk, *, owner: bytes = b"bookie-1", range_count_max: int = 100
) -> DeletedLedgers:
    deleted = DeletedLedgers(
        disk, "/l", owner=owner, fail_stop=FailStop(), range_count_max=range_count_max
    )
    deleted.load()
    return deleted


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def test_golden_bytes(disk: SimulatedDisk) -> None:
    deleted = opened(disk)
    deleted.mark([0, 1, 2, 7, 2**63 - 1])
    assert deleted.write()

    assert disk.content(PATH) == golden_bytes("deleted_ledgers_v1.txt")["file"]


def test_what_was_written_is_known_after_a_restart(disk: SimulatedDisk) -> None:
    deleted = opened(disk)
    deleted.mark([3, 4, 9])
    assert deleted.write()
    deleted.mark([5])
    assert 5 in deleted
    assert 5 not in deleted.noted

    after = opened(disk.crash(Random(1)))

    assert [one for one in range(12) if one in after] == [3, 4, 9]
    assert after.noted == deleted.noted


def test_no_cut_and_no_flipped_bit_of_the_file_is_taken(disk: SimulatedDisk) -> None:
    deleted = opened(disk)
    deleted.mark([3, 4, 9])
    deleted.write()
    whole = disk.content(PATH)

    for damaged in [*cut(whole), *(content for _, content in flipped(whole))]:
        disk.set_content(PATH, damaged)
        with pytest.raises(CorruptRecordError):
            opened(disk)


def test_the_file_of_another_bookie_is_refused(disk: SimulatedDisk) -> None:
    deleted = opened(disk)
    deleted.mark([3])
    deleted.write()

    with pytest.raises(CookieMismatchError):
        opened(disk, owner=b"bookie-2")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_step_is_the_last_the_old_or_the_new_file_is_there(seed: int) -> None:
    step, has_crashed = 0, True
    while has_crashed:
        step += 1
        disk = SimulatedDisk()
        disk.make_dirs("/l")
        deleted = opened(disk)
        deleted.mark([1])
        deleted.write()
        deleted.mark([5])
        disk.crash_at = disk.operation_count + step
        try:
            deleted.write()
            has_crashed = False
        except SimulatedCrash:
            pass
        after = opened(disk.crash(Random(seed * 100 + step)) if seed else disk.process_crash())
        assert 1 in after
        assert has_crashed or 5 in after
        after.mark([8])
        assert after.write()
        assert 8 in opened(disk.crash(Random(seed)))
    assert step > 4


@pytest.mark.parametrize("operation", ["create", "pwrite"])
def test_on_a_full_disk_the_file_stays_as_it_was_and_nothing_stops(
    disk: SimulatedDisk, operation: str
) -> None:
    deleted = opened(disk)
    deleted.mark([1])
    deleted.write()
    deleted.mark([5])
    disk.faults = [Fault(operation, errno.ENOSPC, path_part="deleted_ledgers")]

    assert not deleted.write()

    assert 5 not in deleted.noted
    assert 5 not in opened(disk)
    assert deleted.write()
    assert 5 in opened(disk)


@pytest.mark.parametrize("operation", ["create", "pwrite", "sync", "rename", "sync_dir"])
def test_a_failed_write_stops_the_bookie(disk: SimulatedDisk, operation: str) -> None:
    deleted = opened(disk)
    deleted.mark([1])
    disk.faults = [Fault(operation, errno.EIO)]

    for _ in range(2):
        with pytest.raises(StorageFailedError):
            deleted.write()
    assert 1 not in deleted.noted


def test_no_more_ranges_than_allowed_are_taken_in(disk: SimulatedDisk) -> None:
    deleted = opened(disk, range_count_max=3)

    assert deleted.mark([1, 3, 5])
    assert not deleted.mark([7])
    assert 7 not in deleted
    assert deleted.mark([6, 2])  # between ranges, or beside one: no more of them than before
    assert deleted.range_count == 2


def test_the_ids_between_ranges_are_asked_for_before_there_are_too_many(
    disk: SimulatedDisk,
) -> None:
    deleted = opened(disk, range_count_max=6)
    deleted.mark([1, 3, 9])
    assert deleted.gap_ids(10) == []

    deleted.mark([20])

    assert deleted.gap_ids(6) == [2, 4, 5, 6, 7, 8]
