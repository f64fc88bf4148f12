"""The census: whole or not at all on the disk, bounded, and never more than what is there."""

import errno
from random import Random

import pytest

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import CookieMismatchError, CorruptRecordError, NoSpaceError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.index.census import Census, Counted

PATH = "/l/census"


def census_of(
    disk: SimulatedDisk, *, owner: bytes = b"bookie-1", range_count_max: int = 100
) -> Census:
    return Census(disk, "/l", owner=owner, fail_stop=FailStop(), range_count_max=range_count_max)


def begun(disk: SimulatedDisk) -> Census:
    census = census_of(disk)
    census.load()
    census.begin([0, 1, 2, 7], {1: 4_096, 3: 1 << 40})
    return census


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def test_golden_bytes(disk: SimulatedDisk) -> None:
    census = begun(disk)
    census.write({4: 0})

    assert disk.content(PATH) == golden_bytes("census_v1.txt")["file"]

    census.begin([2**62], {}, has_gaps=True)
    census.write({})

    assert disk.content(PATH) == golden_bytes("census_v1.txt")["with_gaps"]


def test_what_was_counted_is_known_after_a_loss_of_power(disk: SimulatedDisk) -> None:
    begun(disk).write({4: 0})

    assert census_of(disk.crash(Random(1))).load() == Counted(
        LedgerRanges((0, 7), (2, 7)), ((1, 4_096), (3, 1 << 40), (4, 0))
    )


def test_no_cut_and_no_flipped_bit_of_the_file_is_taken(disk: SimulatedDisk) -> None:
    begun(disk).write({})
    whole = disk.content(PATH)

    for damaged in [*cut(whole), *(content for _, content in flipped(whole))]:
        disk.set_content(PATH, damaged)
        with pytest.raises(CorruptRecordError):
            census_of(disk).load()


def test_the_file_of_another_bookie_is_refused(disk: SimulatedDisk) -> None:
    begun(disk).write({})

    with pytest.raises(CookieMismatchError):
        census_of(disk, owner=b"bookie-2").load()


def test_whatever_step_is_the_last_the_old_or_the_new_file_is_there() -> None:
    for step in range(1, 30):
        disk = SimulatedDisk()
        disk.make_dirs("/l")
        census = begun(disk)
        census.write({})
        before = census_of(disk).load()
        census.named([8])
        disk.crash_at = disk.operation_count + step
        try:
            census.write({4: 0})
        except SimulatedCrash:
            after = census_of(disk.crash(Random(step))).load()
            assert after in (before, Counted(LedgerRanges((0, 7), (2, 8)), NEW_LOGS))
            continue
        assert step > 3
        return
    raise AssertionError("it ends")


NEW_LOGS = ((1, 4_096), (3, 1 << 40), (4, 0))


def test_it_is_written_only_when_a_ledger_or_a_log_came_or_went(disk: SimulatedDisk) -> None:
    census = begun(disk)
    census.write({4: 0})
    before = disk.operation_count

    census.write({4: 0})
    census.named([7])
    census.unnamed([9])
    census.write({4: 0})

    assert disk.operation_count == before
    assert disk.crash(Random(1)).exists(PATH)
    census = census_of(disk)
    assert census.load() is not None
    census.begin([0, 1, 2, 7], {1: 4_096, 3: 1 << 40, 4: 0})
    census.write({})
    assert disk.operation_count == before


def test_ledgers_come_and_go(disk: SimulatedDisk) -> None:
    census = begun(disk)
    census.named([3, 9])
    census.unnamed([7, 9])

    assert [one for one in range(12) if census.has_ledger(one)] == [0, 1, 2, 3]
    census.write({})
    assert [one for one in range(12) if census.has_ledger(one)] == [0, 1, 2, 3]
    counted = census_of(disk).load()
    assert counted is not None
    assert counted.ledgers == LedgerRanges((0,), (3,))


def test_a_log_is_forgotten_before_it_goes_and_no_checkpoint_brings_it_back(
    disk: SimulatedDisk,
) -> None:
    """A checkpoint that was begun before has still got it."""
    census = begun(disk)
    census.write({4: 0})

    assert census.forget_logs([3, 4])
    census.write({3: 1 << 40, 4: 700, 5: 0})

    counted = census_of(disk).load()
    assert counted is not None
    assert counted.log_sizes == ((1, 4_096), (5, 0))


def test_on_a_full_disk_logs_stay_and_a_checkpoint_is_tried_again(disk: SimulatedDisk) -> None:
    census = begun(disk)
    census.write({})
    before = disk.content(PATH)
    disk.faults = [Fault("pwrite", errno.ENOSPC) for _ in range(3)]

    assert not census.forget_logs([1])
    with pytest.raises(NoSpaceError):
        census.write({})
    assert disk.content(PATH) == before

    census.write({})
    assert census.forget_logs([3])
    counted = census_of(disk).load()
    assert counted is not None
    assert counted.log_sizes == ()


def test_ledgers_beyond_the_room_are_not_counted_and_that_is_told(disk: SimulatedDisk) -> None:
    census = census_of(disk, range_count_max=3)
    census.begin(range(0, 20, 2), {})
    census.write({})

    assert census_of(disk).load() == Counted(LedgerRanges((0, 2, 4), (0, 2, 4)), (), 5)


def test_twenty_thousand_ledgers_of_which_no_two_lie_in_a_row_take_320_kb(
    disk: SimulatedDisk,
) -> None:
    census = census_of(disk, range_count_max=200_000)
    census.begin(range(0, 40_000, 2), {})
    census.write({})

    assert len(disk.content(PATH)) == 48 + 16 * 20_000
    census.begin(range(20_000), {})
    census.write({})
    assert len(disk.content(PATH)) == 48 + 16
