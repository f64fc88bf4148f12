"""A bookie's storage on damaged or foreign files: it refuses them and denies nothing."""

import pytest

from tests.support.batches import batch_of, entries_in
from tests.support.bookie_storages import (
    KEY,
    NO_LIMIT,
    disk,
    prepare,
    presence,
    read_all,
    reopened,
    storage,
)
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import (
    CookieMismatchError,
    CorruptJournalError,
    CorruptRecordError,
    EntryUnreadableError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

__all__ = ["disk", "storage"]


def test_damaged_bytes_are_an_error_and_not_an_absence(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    """B3: "no such entry" is said only on an index miss."""
    batch = batch_of(1, range(10))
    add_batches(storage.homes, [batch])
    path = disk.paths(".log")[0]
    at = disk.content(path).find(entries_in(batch)[4])
    disk.flip_bit(path, 8 * (at + 17))  # in the entry id

    resolved = storage.homes.ledger(1).resolve(range(4, 10), NO_LIMIT)
    assert resolved is not None
    with pytest.raises(EntryUnreadableError):
        storage.home_of(resolved).fetch(resolved)
    assert read_all(storage, 1, range(4)) == b"".join(entries_in(batch)[e] for e in range(4))


def test_a_damaged_index_page_is_an_error_and_not_an_absence(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    """B3: nor is a damaged index an index miss."""
    add_batches(storage.homes, [batch_of(1, range(2000))])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    (path,) = disk.paths(".idx")
    disk.flip_bit(path, 8 * (1024 + 8208 + 40))  # the second page
    storage = reopened(disk)

    resolved = storage.homes.ledger(1).resolve(range(1000, 2000), NO_LIMIT)
    assert resolved is not None
    assert resolved.entry_ids == range(1000, 1024), "what is whole is answered"
    with pytest.raises(EntryUnreadableError):
        storage.homes.ledger(1).resolve(range(1024, 2000), NO_LIMIT)
    with pytest.raises(EntryUnreadableError):
        storage.homes.ledger(1).resolve([1500], NO_LIMIT)
    with pytest.raises(CorruptRecordError):
        presence(storage, batch_of(1, range(1999, 2001)))


def test_an_add_to_a_damaged_page_writes_nothing(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    storage.homes.place(2).home.cache.set_ledger_key(2, KEY, LedgerType.PD_JOURNAL)
    add_batches(storage.homes, [batch_of(1, range(10)), batch_of(2, range(10))])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    disk.flip_bit(disk.paths(".idx")[0], 8 * 2000)
    storage = reopened(disk)
    before = disk.operation_count

    with pytest.raises(CorruptRecordError):
        prepare(storage, batch_of(1, range(10, 12)))
    with pytest.raises(CorruptRecordError):
        add_batches(storage.homes, [batch_of(2, range(10, 12)), batch_of(1, range(10, 12))])

    assert disk.operation_count == before
    prepare(storage, batch_of(2, range(10, 12)))
    add_batches(storage.homes, [batch_of(2, range(10, 12))])
    assert len(read_all(storage, 2, range(12))) > 0


def test_what_was_prepared_and_forgotten_before_it_is_added_is_prepared_again(
    storage: BookieStorage,
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10))])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.begin_turn()
    index = prepare(storage, batch_of(1, range(10, 20)))
    while storage.directories[0].cache.pages.drop_oldest_clean() is not None:
        """As reads make room."""

    storage.directories[0].add([batch_of(1, range(10, 20))], [index])

    bodies = [batch_of(1, ids).body for ids in (range(10), range(10, 20))]
    assert read_all(storage, 1, range(20)) == b"".join(bodies)


def test_a_page_that_a_checkpoint_trims_after_it_was_prepared_is_read_again(
    storage: BookieStorage,
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10)), batch_of(1, range(20, 30))])
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.begin_turn()
    index = prepare(storage, batch_of(1, range(10, 20)))
    storage.end_checkpoint(checkpoint)

    storage.directories[0].add([batch_of(1, range(10, 20))], [index])

    bodies = [batch_of(1, ids).body for ids in (range(10), range(10, 20), range(20, 30))]
    assert read_all(storage, 1, range(30)) == b"".join(bodies)


def test_a_damaged_mark_is_refused(disk: SimulatedDisk, storage: BookieStorage) -> None:
    del storage
    (path,) = disk.paths("last_mark")
    disk.set_content(path, bytes(len(disk.content(path))))

    with pytest.raises(CorruptRecordError, match="last log mark"):
        reopened(disk)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_damaged_journal_is_refused_before_anything_changes(
    disk: SimulatedDisk, storage: BookieStorage, victim: int
) -> None:
    journal = storage.journal
    journal.append([LedgerKeyRecord(1, KEY, LedgerType.PD_JOURNAL)])
    batches = [batch_of(1, range(n * 10, n * 10 + 10)) for n in range(3)]
    for batch in batches:
        add_batches(storage.homes, [batch])
        journal.append([EntriesRecord(batch)])
        journal.sync()
    path = disk.paths(".journal")[-1]
    disk.flip_bit(path, 8 * (disk.content(path).find(batches[victim].body) + 5))
    before = {path: disk.content(path) for path in disk.paths()}

    with pytest.raises(CorruptJournalError):
        reopened(disk)

    assert {path: disk.content(path) for path in disk.paths()} == before


def test_another_bookies_files_are_refused(disk: SimulatedDisk, storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(1))])
    other = BookieStorage(
        disk.process_crash(), journal_dir="/j", ledger_dir="/l", bookie_id="bookie-2"
    )

    with pytest.raises(CookieMismatchError):
        other.open()
    other.close()
