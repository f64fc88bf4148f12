"""Checkpoints of a bookie's storage: their order, and one failure that ends every promise."""

import errno

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import (
    KEY,
    TwinnedStorage,
    disk,
    read_all,
    reopened,
    storage,
    storage_on,
)
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, FenceRecord
from zbk.storage.replay import add_batches

__all__ = ["disk", "storage"]


@pytest.mark.parametrize("path_part", [".journal", ".log", ".idx", "last_mark", "index.flush"])
@pytest.mark.parametrize(
    ("operation", "error"),
    [("pwrite", errno.EIO), ("sync", errno.EIO), ("sync", errno.ENOSPC)],
)
def test_one_failure_anywhere_stops_every_promise(
    disk: SimulatedDisk, storage: BookieStorage, path_part: str, operation: str, error: int
) -> None:
    def work(n: int) -> None:
        batch = batch_of(1, range(n * 10, n * 10 + 10))
        add_batches(storage.homes, [batch])
        storage.journal.append([EntriesRecord(batch)])
        storage.journal.sync()
        checkpoint = storage.begin_checkpoint()
        checkpoint.run()
        storage.end_checkpoint(checkpoint)

    work(0)
    disk.faults = [Fault(operation, error, path_part=path_part)]
    with pytest.raises(StorageFailedError, match=path_part):
        work(1)
    assert disk.faults == []

    before = disk.operation_count
    for refused in (
        lambda: add_batches(storage.homes, [batch_of(1, range(100, 101))]),
        lambda: storage.journal.append([FenceRecord(1)]),
        storage.journal.sync,
        storage.homes.ledger(1).index.set_fenced,
    ):
        with pytest.raises(StorageFailedError):
            refused()
    storage.close()
    assert disk.operation_count == before, "no second fsync, no further write"
    storage = reopened(disk)
    assert read_all(storage, 1, range(10)) == batch_of(1, range(10)).body


def test_a_disk_that_cannot_be_read_at_the_start_is_an_error(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    del storage
    disk.process_crash()
    disk.faults = [Fault("pread", errno.EIO)]

    with pytest.raises(StorageFailedError):
        storage_on(disk).open()


def test_the_mark_moves_with_checkpoints_and_old_segments_go(disk: SimulatedDisk) -> None:
    bookie = TwinnedStorage(disk)
    bookie.open()
    marks = [bookie.storage.last_mark]
    for n in range(8):
        bookie.add(1, range(n * 20, n * 20 + 20), 60)
        bookie.sync()
        bookie.finish_checkpoint()
        marks.append(bookie.storage.last_mark)

    assert marks == sorted(set(marks))
    assert len(disk.paths(".journal")) == 1


def test_a_checkpoint_has_an_order(storage: BookieStorage) -> None:
    """B39: entry logs, then index pages, then the mark, then the journal."""
    add_batches(storage.homes, [batch_of(1, range(1))])
    checkpoint = storage.begin_checkpoint()

    for too_early in (
        checkpoint.write_index,
        checkpoint.apply_index,
        checkpoint.write_census,
        checkpoint.write_mark,
        checkpoint.remove_journals,
        storage.begin_checkpoint,
    ):
        with pytest.raises(AssertionError):
            too_early()


def test_a_checkpoint_is_due_when_much_of_the_index_has_changed(disk: SimulatedDisk) -> None:
    storage = storage_on(disk, ledger_cache_size=40_000)
    storage.open()
    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)
    assert not storage.is_checkpoint_due

    add_batches(storage.homes, [batch_of(1, range(3600))])

    assert storage.is_checkpoint_due
