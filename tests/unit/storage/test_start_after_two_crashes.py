"""A process that was killed, and then a loss of power: what the start between them saw is kept."""

import errno

import pytest

from tests.support.bookie_storages import TwinnedStorage
from tests.support.power_cuts import NothingKept
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import StorageFailedError
from zbk.storage import bookie_storage

LEDGER_ID = 1


@pytest.mark.parametrize("end", ["failed fsync", "killed before the fsync"])
def test_a_flush_that_only_the_page_cache_had_does_not_bring_back_the_one_before(end: str) -> None:
    """Old pages were put over newer ones that no journal had any more: acked entries gone."""
    twin = TwinnedStorage(SimulatedDisk())
    twin.storage.open()
    twin.add(LEDGER_ID, range(3))
    twin.finish_checkpoint()
    twin.add(LEDGER_ID, range(3, 6))
    twin.finish_checkpoint()  # the flush file has the pages up to here
    twin.add(LEDGER_ID, range(6, 9))
    twin.sync()
    twin.take_step()
    twin.take_step()
    if end == "failed fsync":
        twin.disk.faults.append(Fault("sync", errno.EIO, path_part="index.flush"))
    else:
        twin.disk.crash_at = twin.disk.operation_count + 2  # it is written
    with pytest.raises((StorageFailedError, SimulatedCrash)):
        twin.take_step()
    twin.kill()

    twin.storage.open()
    twin.check()
    twin.lose_power(NothingKept(1))
    twin.storage.open()

    twin.check()


def test_the_name_of_an_index_file_that_only_the_page_cache_had_is_made_durable() -> None:
    """The ledger was taken as kept, its journal went, and so did its fence and its entries."""
    twin = TwinnedStorage(SimulatedDisk())
    twin.storage.open()
    twin.add(LEDGER_ID, range(3))
    twin.fence(LEDGER_ID)
    twin.sync()
    twin.take_step()
    twin.take_step()
    twin.disk.faults.append(Fault("sync_dir", errno.EIO, path_part="/l/index"))
    with pytest.raises(StorageFailedError):
        twin.take_step()  # it has its name, and the directory is not synced
    twin.kill()

    twin.storage.open()
    twin.check()
    twin.lose_power(NothingKept(1))
    twin.storage.open()

    twin.check()


@pytest.mark.parametrize("count", range(1, 9))
def test_bytes_of_a_log_that_only_the_page_cache_had_are_not_missed(count: int) -> None:
    """The census named them, and then ledgers that bypass the journal were in limbo for ever."""
    twin = TwinnedStorage(SimulatedDisk())
    twin.storage.open()
    twin.add(LEDGER_ID, range(3))
    twin.finish_checkpoint()
    twin.kill()
    twin.storage.open()
    for entry_id in range(3, 3 + count):  # what a failed fsync keeps is drawn
        twin.add(LEDGER_ID, [entry_id])
        twin.sync()
    twin.disk.faults.append(Fault("sync", errno.EIO, path_part=".log"))
    with pytest.raises(StorageFailedError):
        twin.finish_checkpoint()
    twin.kill()

    twin.storage.open()
    twin.check()
    twin.lose_power(NothingKept(1))
    twin.storage.open()

    assert [one.lost_logs for one in twin.storage.scrubs] == [{}]
    twin.check()


@pytest.mark.parametrize("is_full", [False, True])
def test_what_a_start_replays_is_on_the_disk_before_it_is_served(
    monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """A repeated add or fence was answered at once, from records that only the page cache had."""
    twin = TwinnedStorage(SimulatedDisk())
    twin.storage.open()
    twin.add(LEDGER_ID, range(3))
    twin.finish_checkpoint()
    twin.add(LEDGER_ID, range(3, 30))
    twin.fence(LEDGER_ID)
    twin.disk.faults.append(Fault("sync", errno.EIO, path_part=".journal"))
    with pytest.raises(StorageFailedError):
        twin.sync()
    twin.kill()
    if is_full:
        twin.disk.faults.append(Fault("pwrite", errno.ENOSPC, path_part="index.flush"))
    else:
        monkeypatch.setattr(bookie_storage, "LEDGERS_AT_START_MAX", 0)

    twin.storage.open()
    assert twin.storage.open_checkpoint is not None
    info = twin.storage.homes.info(LEDGER_ID)
    assert info is not None
    assert info.last_entry_id == 29
    assert info.is_fenced
    twin.lose_power(NothingKept(1))
    twin.storage.open()

    info = twin.storage.homes.info(LEDGER_ID)
    assert info is not None
    assert info.last_entry_id == 29
    assert info.is_fenced
