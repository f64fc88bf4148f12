"""What a bookie finds out at its start about what it may have lost, whatever stops it meanwhile."""

import errno
from random import Random

import pytest

from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.actors.identity.losses import Losses
from zbk.durability.limbo import LossReason
from zbk.errors import BookieError, NoSpaceError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory import unfinished, wipe
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
NEXT_ID = 5


def losses_of(disk: SimulatedDisk, boot_id: str) -> tuple[Losses, LimboFile]:
    limbo = LimboFile(disk, "/l", bookie_id="b-test", fail_stop=FailStop())
    return Losses(disk, limbo, ["/l"], boot_id), limbo


def started(
    disk: SimulatedDisk, boot_id: str, *, next_id: int = NEXT_ID, on_purpose: bool = False
) -> tuple[Losses, LimboFile]:
    losses, limbo = losses_of(disk, boot_id)
    losses.find(lambda: next_id, is_wiped_on_purpose=on_purpose)
    losses.begin_serving()
    return losses, limbo


def unasked() -> int:
    raise AssertionError("nobody needs to know")


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    disk.make_dirs("/j")
    disk.sync_dir("/")
    return disk


def wiped(disk: SimulatedDisk) -> SimulatedDisk:
    wipe.wipe(disk, ["/j", "/l"], ["/l"], with_cookie=False)
    return disk


def test_the_first_start_lost_nothing_and_asks_nobody(disk: SimulatedDisk) -> None:
    losses, _ = losses_of(disk, "boot-1")

    losses.find(unasked, is_wiped_on_purpose=True)

    assert losses.reasons == ()


def test_a_data_directory_of_before_there_was_a_note_is_taken_as_whole(
    disk: SimulatedDisk,
) -> None:
    disk.open("/l/last_mark", create=True).close()
    losses, _ = losses_of(disk, "boot-1")

    losses.find(unasked, is_wiped_on_purpose=False)

    assert losses.reasons == ()


def test_a_killed_process_in_the_same_boot_lost_nothing(disk: SimulatedDisk) -> None:
    """I20: the page cache outlives the process."""
    started(disk, "boot-1")

    losses, _ = losses_of(disk.process_crash(), "boot-1")
    losses.find(unasked, is_wiped_on_purpose=False)

    assert losses.reasons == ()


def test_after_another_boot_the_ledgers_below_the_counter_are_in_limbo(
    disk: SimulatedDisk,
) -> None:
    started(disk, "boot-1")

    losses, limbo = started(disk.crash(Random(1)), "boot-2")

    assert losses.reasons == (LossReason.UNCLEAN_STOP,)
    assert losses.left(has_lost_fences=False) == LedgerRanges((0,), (NEXT_ID - 1,))
    assert losses.left(has_lost_fences=True) == LedgerRanges()
    assert limbo.limbo.is_miss_unknown(NEXT_ID - 1, VD)
    assert not limbo.limbo.is_miss_unknown(NEXT_ID, VD)


def test_a_clean_stop_before_another_boot_lost_nothing(disk: SimulatedDisk) -> None:
    losses, _ = started(disk, "boot-1")
    losses.end_serving()

    losses, _ = losses_of(disk.crash(Random(1)), "boot-2")
    losses.find(unasked, is_wiped_on_purpose=False)

    assert losses.reasons == ()


def test_a_clean_stop_does_not_end_the_limbo_of_before(disk: SimulatedDisk) -> None:
    started(disk, "boot-1")
    losses, _ = started(disk.crash(Random(1)), "boot-2")
    losses.end_serving()

    losses, _ = started(disk.crash(Random(1)), "boot-3")

    assert losses.reasons == (LossReason.UNCLEAN_STOP,)


def test_after_a_failed_write_the_page_cache_is_not_trusted_in_the_same_boot(
    disk: SimulatedDisk,
) -> None:
    """Linux marks pages clean that it could not write, and may drop them."""
    losses, _ = started(disk, "boot-1")
    losses.doubt()

    losses, _ = started(disk.process_crash(), "boot-1")

    assert losses.reasons == (LossReason.UNCLEAN_STOP,)


def test_a_disk_that_takes_no_doubt_does_not_hide_the_failure(disk: SimulatedDisk) -> None:
    losses, _ = started(disk, "boot-1")
    disk.faults = [Fault("create", errno.EIO)]

    losses.doubt()


def test_a_second_unclean_stop_widens_the_limbo(disk: SimulatedDisk) -> None:
    started(disk, "boot-1")
    losses, _ = started(disk.crash(Random(1)), "boot-2")
    assert losses.clear([(0, 2)])

    losses, limbo = started(disk.crash(Random(1)), "boot-3", next_id=9)

    assert losses.left(has_lost_fences=False) == LedgerRanges((0,), (8,))
    assert limbo.limbo.is_miss_unknown(1, VD)


def test_in_a_cluster_without_ledgers_nothing_can_be_lost(disk: SimulatedDisk) -> None:
    started(disk, "boot-1")

    losses, _ = started(disk.crash(Random(1)), "boot-2", next_id=0)

    assert losses.reasons == ()


def test_a_wiped_bookie_is_refused_and_told_both_cures(disk: SimulatedDisk) -> None:
    wiped(disk)
    losses, _ = losses_of(disk, "boot-1")

    losses.find(unasked, is_wiped_on_purpose=False)

    with pytest.raises(BookieError) as caught:
        unfinished.check_finished(disk, "/l")
    assert "zbk bookie run --wiped-on-purpose" in str(caught.value)
    assert "zbk bookie format --with-cookie" in str(caught.value)


def test_a_bookie_wiped_on_purpose_starts_and_knows_that_it_lost_everything(
    disk: SimulatedDisk,
) -> None:
    wiped(disk)

    losses, limbo = started(disk, "boot-1", on_purpose=True)

    unfinished.check_finished(disk, "/l")
    assert losses.reasons == (LossReason.WIPED,)
    assert limbo.limbo.is_miss_unknown(NEXT_ID - 1, PD)
    assert limbo.limbo.may_lack_fence(NEXT_ID - 1)
    again, _ = losses_of(disk.process_crash(), "boot-1")
    again.find(unasked, is_wiped_on_purpose=True)
    assert again.reasons == (LossReason.WIPED,)


def test_a_wipe_forgets_the_limbo_of_before_for_a_larger_one(disk: SimulatedDisk) -> None:
    started(disk, "boot-1")
    started(disk.crash(Random(1)), "boot-2")
    wiped(disk)

    losses, _ = started(disk, "boot-2", on_purpose=True)

    assert losses.reasons == (LossReason.WIPED,)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_wiped", [False, True])
def test_whatever_step_of_a_start_is_the_last_no_loss_is_forgotten(
    seed: int, *, is_wiped: bool
) -> None:
    step, has_crashed = 0, True
    while has_crashed:
        step += 1
        disk = SimulatedDisk()
        disk.make_dirs("/l")
        disk.make_dirs("/j")
        if is_wiped:
            wiped(disk)
        else:
            started(disk, "boot-1")
            disk.crash(Random(seed))
        disk.crash_at = disk.operation_count + step
        try:
            started(disk, "boot-2", on_purpose=True)
            has_crashed = False
        except SimulatedCrash:
            pass
        disk.crash(Random(seed * 100 + step))
        losses, _ = started(disk, "boot-3", on_purpose=True)
        expected = LossReason.WIPED if is_wiped else LossReason.UNCLEAN_STOP
        assert expected in losses.reasons
    assert step > 6


@pytest.mark.parametrize("operation", ["create", "pwrite"])
def test_on_a_full_disk_a_start_fails_and_may_be_tried_again(
    disk: SimulatedDisk, operation: str
) -> None:
    losses, _ = losses_of(disk, "boot-1")
    disk.faults = [Fault(operation, errno.ENOSPC, path_part="serving")]

    with pytest.raises(NoSpaceError):
        losses.begin_serving()

    losses.begin_serving()


def test_a_start_that_cannot_note_that_it_serves_does_not_serve(disk: SimulatedDisk) -> None:
    losses, _ = losses_of(disk, "boot-1")
    disk.faults = [Fault("sync", errno.EIO, path_part="serving")]

    with pytest.raises(StorageFailedError):
        losses.begin_serving()


def test_what_may_lack_fences_is_not_checked_as_if_only_the_page_cache_were_lost(
    disk: SimulatedDisk,
) -> None:
    """B10: a wiped bookie that stopped uncleanly: the weaker check would clear what is all gone."""
    started(wiped(disk), "boot-1", on_purpose=True)
    losses, limbo = started(disk, "boot-2", next_id=NEXT_ID + 3)
    assert set(losses.reasons) == {LossReason.WIPED, LossReason.UNCLEAN_STOP}

    assert losses.left(has_lost_fences=True) == LedgerRanges((0,), (NEXT_ID - 1,))
    assert losses.left(has_lost_fences=False) == LedgerRanges((NEXT_ID,), (NEXT_ID + 2,))

    losses.clear([(2, 2)])  # it has passed the stronger check
    assert 2 not in losses.left(has_lost_fences=False)
    assert not limbo.limbo.is_miss_unknown(2, VD)


def test_nothing_is_cleared_once_the_re_check_is_over(disk: SimulatedDisk) -> None:
    started(disk, "boot-1")
    losses, limbo = started(disk.crash(Random(1)), "boot-2")

    losses.end_recheck()

    assert not losses.clear([(0, 9)])
    assert limbo.limbo.is_miss_unknown(0, VD)
