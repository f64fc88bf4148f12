"""The losses of a bookie on disk: whole or not at all, and never taken for fewer than they are."""

import errno
from random import Random

import pytest

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.durability.limbo import LossReason
from zbk.errors import CookieMismatchError, CorruptRecordError, NoSpaceError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges

PATH = "/l/limbo"
PD = LedgerType.PD_JOURNAL


def opened(
    disk: SimulatedDisk, *, bookie_id: str = "bookie-1", range_count_max: int = 100
) -> LimboFile:
    limbo = LimboFile(
        disk, "/l", bookie_id=bookie_id, fail_stop=FailStop(), range_count_max=range_count_max
    )
    limbo.load()
    return limbo


def unknown(limbo: LimboFile, stop: int) -> list[int]:
    return [one for one in range(stop) if limbo.limbo.is_miss_unknown(one, PD)]


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def test_golden_bytes(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.UNCLEAN_STOP, 9)
    limbo.note_loss(LossReason.WIPED, 2**63 - 1)
    limbo.note_loss(LossReason.DIRECTORY_LOST, 5)
    assert limbo.clear([(0, 1), (4, 4), (7, 20)])

    assert disk.content(PATH) == golden_bytes("limbo_v1.txt")["file"]


def test_golden_bytes_with_an_index_that_was_lost(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.UNCLEAN_STOP, 9)
    limbo.note_lost_indexes(LedgerRanges((2, 6), (3, 6)))
    assert limbo.clear_lost_indexes(LedgerRanges((3,), (3,)))
    assert limbo.clear([(0, 1)])

    assert disk.content(PATH) == golden_bytes("limbo_v2.txt")["file"]


def test_a_lost_index_concerns_its_ledger_only_and_its_fence_for_ever(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_lost_indexes(LedgerRanges((2, 6), (3, 6)))
    assert unknown(limbo, 9) == [2, 3, 6]
    assert limbo.clear_lost_indexes(LedgerRanges((2,), (3,)))
    assert unknown(limbo, 9) == [6]
    assert limbo.limbo.reasons == (LossReason.INDEX_LOST,)
    assert limbo.clear([(0, 8)])

    after = opened(disk.crash(Random(1)))

    assert after.limbo == limbo.limbo
    assert after.limbo.reasons == ()
    assert unknown(after, 9) == []
    assert [one for one in range(9) if after.limbo.may_lack_fence(one)] == [2, 3, 6]
    assert after.lost_indexes == LedgerRanges((2, 6), (3, 6))


def test_a_second_lost_index_leaves_what_was_cleared_after_the_first(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_lost_indexes(LedgerRanges((2, 6), (3, 6)))
    limbo.clear([(0, 8)])

    limbo.note_lost_indexes(LedgerRanges((3, 8), (3, 8)))

    assert unknown(opened(disk), 12) == [3, 8]
    assert opened(disk).lost_indexes == LedgerRanges((2, 6, 8), (3, 6, 8))


def test_what_clears_a_lost_index_clears_no_other_loss(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.WIPED, 4)
    limbo.note_lost_indexes(LedgerRanges((2,), (2,)))

    assert limbo.clear_lost_indexes(LedgerRanges((2,), (2,)))

    assert unknown(limbo, 6) == [0, 1, 2, 3]


def test_lost_indexes_in_more_ranges_than_there_may_be_are_taken_for_more(
    disk: SimulatedDisk,
) -> None:
    limbo = opened(disk, range_count_max=2)

    limbo.note_lost_indexes(LedgerRanges((1, 3, 5), (1, 3, 5)))

    assert unknown(limbo, 9) == [0, 1, 2, 3, 4, 5]


def test_without_a_loss_there_is_no_file(disk: SimulatedDisk) -> None:
    limbo = opened(disk)

    assert limbo.clear([(0, 7)])

    assert not limbo.limbo.losses
    assert disk.paths() == []


def test_a_loss_and_what_was_cleared_are_known_after_a_loss_of_power(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.WIPED, 6)
    assert limbo.clear([(1, 2), (4, 4)])

    after = opened(disk.crash(Random(1)))

    assert after.limbo == limbo.limbo
    assert unknown(after, 8) == [0, 3, 5]
    assert after.left([LossReason.WIPED]) == LedgerRanges((0, 3, 5), (0, 3, 5))
    assert after.left([LossReason.UNCLEAN_STOP]) == LedgerRanges()


def test_the_file_goes_with_the_last_ledger_if_no_fence_was_lost(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.UNCLEAN_STOP, 6)

    assert limbo.clear([(0, 5)])

    assert disk.paths() == []
    assert not opened(disk.crash(Random(1))).limbo.losses


def test_lost_fences_are_remembered_when_all_is_cleared(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.DIRECTORY_LOST, 6)
    assert limbo.clear([(0, 5)])

    after = opened(disk.crash(Random(1)))

    assert unknown(after, 8) == []
    assert after.limbo.may_lack_fence(5)


@pytest.mark.parametrize("has_scope", [True, False])
def test_no_cut_and_no_flipped_bit_of_the_file_is_taken(
    disk: SimulatedDisk, has_scope: bool
) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.UNCLEAN_STOP, 9)
    limbo.note_loss(LossReason.WIPED, 9)
    limbo.clear([(1, 2), (4, 4)])
    if has_scope:
        limbo.note_lost_indexes(LedgerRanges((2, 6), (3, 6)))
    whole = disk.content(PATH)

    for damaged in [*cut(whole), *(content for _, content in flipped(whole))]:
        disk.set_content(PATH, damaged)
        with pytest.raises(CorruptRecordError):
            opened(disk)


def test_the_file_of_another_bookie_is_refused(disk: SimulatedDisk) -> None:
    opened(disk).note_loss(LossReason.WIPED, 9)

    with pytest.raises(CookieMismatchError):
        opened(disk, bookie_id="bookie-2")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_step_is_the_last_a_ledger_is_cleared_or_is_not(seed: int) -> None:
    step, has_crashed = 0, True
    while has_crashed:
        step += 1
        disk = SimulatedDisk()
        disk.make_dirs("/l")
        limbo = opened(disk)
        limbo.note_loss(LossReason.WIPED, 6)
        disk.crash_at = disk.operation_count + step
        try:
            limbo.clear([(1, 1)])
            has_crashed = False
        except SimulatedCrash:
            pass
        after = opened(disk.crash(Random(seed * 100 + step)) if seed else disk.process_crash())
        left = unknown(after, 6)
        assert left == [0, 2, 3, 4, 5] or (has_crashed and left == [0, 1, 2, 3, 4, 5])
        assert after.clear([(1, 1)])
        assert unknown(opened(disk.crash(Random(seed))), 6) == [0, 2, 3, 4, 5]
    assert step > 4


@pytest.mark.parametrize("operation", ["create", "pwrite"])
def test_on_a_full_disk_nothing_is_cleared_and_nothing_stops(
    disk: SimulatedDisk, operation: str
) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.WIPED, 3)
    disk.faults = [Fault(operation, errno.ENOSPC, path_part="limbo")]

    assert not limbo.clear([(1, 1)])

    assert unknown(limbo, 3) == unknown(opened(disk), 3) == [0, 1, 2]
    assert limbo.clear([(1, 1)])
    assert unknown(limbo, 3) == unknown(opened(disk), 3) == [0, 2]


def test_a_loss_that_finds_no_space_is_an_error_and_may_be_noted_again(
    disk: SimulatedDisk,
) -> None:
    limbo = opened(disk)
    disk.faults = [Fault("create", errno.ENOSPC, path_part="limbo")]

    with pytest.raises(NoSpaceError):
        limbo.note_loss(LossReason.WIPED, 3)

    limbo.note_loss(LossReason.WIPED, 3)
    assert unknown(opened(disk), 3) == [0, 1, 2]


def test_a_failed_fsync_clears_nothing_ever_again(disk: SimulatedDisk) -> None:
    limbo = opened(disk)
    limbo.note_loss(LossReason.WIPED, 3)
    disk.faults = [Fault("sync", errno.EIO, path_part="limbo")]

    for _ in range(2):
        with pytest.raises(StorageFailedError):
            limbo.clear([(1, 1)])

    assert unknown(limbo, 3) == [0, 1, 2]


def test_what_needs_more_ranges_than_there_may_be_stays_in_limbo(disk: SimulatedDisk) -> None:
    limbo = opened(disk, range_count_max=2)
    limbo.note_loss(LossReason.WIPED, 9)
    assert limbo.clear([(1, 1), (4, 4)])

    assert not limbo.clear([(7, 7)])

    assert unknown(limbo, 9) == [0, 2, 3, 5, 6, 7, 8]
    assert limbo.clear([(2, 3), (7, 7)])
