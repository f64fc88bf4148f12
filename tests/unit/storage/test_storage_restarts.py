"""A bookie's storage after a restart: replay adds what is missing and loses nothing."""

from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import (
    KEY,
    NO_LIMIT,
    TwinnedStorage,
    disk,
    read_all,
    reopened,
    storage,
    storage_on,
)
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import EntryUnreadableError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, FenceRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

__all__ = ["disk", "storage"]


def test_replay_adds_what_the_index_does_not_have(disk: SimulatedDisk) -> None:
    bookie = TwinnedStorage(disk)
    bookie.open()
    bookie.add(1, range(10))
    bookie.finish_checkpoint()
    bookie.add(1, range(10, 30))
    bookie.fence(1)
    bookie.kill()

    recovery = bookie.open()

    assert (recovery.record_count, recovery.entry_count) == (2, 20)
    bookie.check()


def test_replay_leaves_alone_what_a_flush_brought_over(disk: SimulatedDisk) -> None:
    bookie = TwinnedStorage(disk)
    bookie.open()
    bookie.add(1, range(10))
    for _ in range(4):  # up to the mark, which is not written any more
        bookie.take_step()
    bookie.kill()

    recovery = bookie.open()

    assert (recovery.record_count, recovery.entry_count) == (2, 0)
    bookie.check()


def test_replay_of_a_batch_that_is_here_in_part_adds_the_rest(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    storage.journal.append([LedgerKeyRecord(1, KEY, LedgerType.PD_JOURNAL)])
    whole = batch_of(1, range(10))
    add_batches(storage.homes, [batch_of(1, range(3, 5))])
    storage.journal.append([EntriesRecord(batch_of(1, range(3, 5))), EntriesRecord(whole)])
    disk.process_crash()
    storage = storage_on(disk)

    recovery = storage.open()

    assert recovery.entry_count == 2 + 8
    assert read_all(storage, 1, range(10)) == whole.body


@pytest.mark.parametrize("damage", ["other bytes", "missing log"])
def test_replay_puts_the_journals_copy_over_a_damaged_one(
    disk: SimulatedDisk, storage: BookieStorage, damage: str
) -> None:
    storage.journal.append([LedgerKeyRecord(1, KEY, LedgerType.PD_JOURNAL)])
    batch = batch_of(1, range(10))
    add_batches(storage.homes, [batch])
    storage.journal.append([EntriesRecord(batch)])
    checkpoint = storage.begin_checkpoint()
    checkpoint.sync_entry_logs()
    checkpoint.write_index()
    (path,) = disk.paths(".log")
    if damage == "missing log":
        disk.remove_at_rest(path)
    else:
        disk.flip_bit(path, 8 * len(disk.content(path)) - 1)  # in the last entry's digest

    storage = reopened(disk)

    assert read_all(storage, 1, range(10)) == batch.body


def test_records_of_a_deleted_ledger_are_counted_and_left_out(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    add_batches(storage.homes, [batch_of(1, range(5))])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.journal.append([EntriesRecord(batch_of(1, range(5, 9))), FenceRecord(1)])
    assert storage.mark_deleted([1])
    assert storage.garbages[0].deleted.write()
    storage.homes.ledger(1).home.cache.delete(1)
    assert storage.ledger_count == 0
    disk.process_crash()

    storage = storage_on(disk)
    recovery = storage.open()

    assert recovery.orphan_count == 2
    assert storage.homes.info(1) is None


def test_a_restart_does_not_count_on_what_only_the_page_cache_has(disk: SimulatedDisk) -> None:
    for seed in range(5):
        disk = SimulatedDisk()
        bookie = TwinnedStorage(disk)
        bookie.open()
        bookie.add(1, range(10))
        bookie.kill()
        bookie.open()
        bookie.check()  # from here on all that is here is promised
        bookie.lose_power(Random(seed))
        bookie.open()
        bookie.check()


def test_log_ids_are_not_used_twice_though_the_logs_are_gone(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    add_batches(storage.homes, [batch_of(1, range(5))])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    (path,) = disk.paths(".log")
    disk.remove_at_rest(path)
    storage = reopened(disk)

    add_batches(storage.homes, [batch_of(1, range(5, 6))])

    assert disk.paths(".log") != [path]
    resolved = storage.homes.ledger(1).resolve(range(5), NO_LIMIT)
    assert resolved is not None
    with pytest.raises(EntryUnreadableError):
        storage.home_of(resolved).fetch(resolved)


def test_a_clean_stop_needs_no_fsync_at_the_next_start_to_be_safe(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    batch = batch_of(1, range(10))
    add_batches(storage.homes, [batch])
    storage.journal.append([LedgerKeyRecord(1, KEY, LedgerType.PD_JOURNAL), EntriesRecord(batch)])
    storage.close()
    assert disk.open_count == 0
    disk.crash(Random(3))

    storage = storage_on(disk)
    assert storage.open().entry_count in {0, 10}
    assert read_all(storage, 1, range(10)) == batch.body
