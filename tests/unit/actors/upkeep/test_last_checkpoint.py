"""A bookie that stops in good order leaves nothing to replay, if its disk lets it."""

import errno

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import BOOKIE_ID, KEY, storage_on
from tests.support.journals import replay
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.actors.upkeep.last_checkpoint import TIMEOUT_MS, take_last_checkpoint
from zbk.errors import StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, JournalRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def add(storage: BookieStorage, first: int) -> None:
    batch = batch_of(1, range(first, first + 3))
    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)
    add_batches(storage.homes, [batch])
    storage.journal.append([LedgerKeyRecord(1, KEY, LedgerType.PD_JOURNAL), EntriesRecord(batch)])
    storage.journal.sync()


def left_after(storage: BookieStorage, disk: SimulatedDisk) -> list[JournalRecord]:
    """Close; return what the next start would bring into storage again."""
    (mark,) = storage.last_mark
    storage.close()
    found: list[JournalRecord] = []
    replay(disk, "/j", mark, found.append, owner=BOOKIE_ID.encode())
    return found


def test_after_it_nothing_is_replayed(disk: SimulatedDisk) -> None:
    storage = storage_on(disk)
    storage.open()
    add(storage, 0)

    assert take_last_checkpoint(storage)

    assert left_after(storage, disk) == []


def test_one_that_was_begun_is_ended_first(disk: SimulatedDisk) -> None:
    storage = storage_on(disk)
    storage.open()
    add(storage, 0)
    begun = storage.begin_checkpoint()
    begun.sync_entry_logs()
    begun.write_index()
    add(storage, 3)

    assert take_last_checkpoint(storage)

    assert left_after(storage, disk) == []


def test_a_full_disk_leaves_all_to_the_next_start(disk: SimulatedDisk) -> None:
    storage = storage_on(disk)
    storage.open()
    add(storage, 0)
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part="index")]

    assert not take_last_checkpoint(storage)

    disk.faults = []
    assert len(left_after(storage, disk)) == 2


def test_a_failed_disk_is_told(disk: SimulatedDisk) -> None:
    storage = storage_on(disk)
    storage.open()
    add(storage, 0)
    disk.faults = [Fault("sync", errno.EIO, path_part="index")]

    with pytest.raises(StorageFailedError):
        take_last_checkpoint(storage)


@pytest.mark.parametrize("step_count", range(5))
def test_a_slow_disk_is_not_waited_for(disk: SimulatedDisk, step_count: int) -> None:
    storage = storage_on(disk)
    storage.open()
    add(storage, 0)
    times_ms = iter([0, *[0] * step_count, *[TIMEOUT_MS] * 9])

    assert not take_last_checkpoint(storage, now_ms=lambda: next(times_ms))

    storage.close()
    storage = storage_on(disk)
    storage.open()
    assert storage.homes.ledger(1).index.last_entry_id == 2
