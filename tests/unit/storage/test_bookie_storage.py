"""A bookie's storage behind its one door: adds, reads, duplicates, damage, restarts."""

import errno
from array import array
from random import Random

import pytest

from tests.support.batches import batch_of, entries_in
from tests.support.bookie_storages import (
    KEY,
    NO_LIMIT,
    TwinnedStorage,
    batch_with_other_bytes,
    prepare,
    presence,
    read_all,
    storage_on,
)
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import (
    CookieMismatchError,
    CorruptJournalError,
    CorruptRecordError,
    EntryUnreadableError,
    NoSuchLedgerError,
    StorageFailedError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, FenceRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches
from zbk.storage.stored_ledger import Presence


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def storage(disk: SimulatedDisk) -> BookieStorage:
    storage = storage_on(disk)
    storage.open()
    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)
    return storage


def reopened(disk: SimulatedDisk) -> BookieStorage:
    storage = storage_on(disk.process_crash())
    storage.open()
    return storage


def test_what_was_added_can_be_read_at_once(storage: BookieStorage) -> None:
    some = [batch_of(1, range(n * 10, n * 10 + 10)) for n in range(5)]
    add_batches(storage.homes, some)

    assert read_all(storage, 1, range(50)) == b"".join(batch.body for batch in some)
    assert storage.ledger_count == 1
    assert storage.ledgers() == [1]


def test_an_answer_ends_at_the_first_absent_entry(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(5)), batch_of(1, range(7, 9))])

    resolved = storage.homes.ledger(1).resolve(range(3, 20), NO_LIMIT)
    assert resolved is not None
    assert resolved.entry_ids == range(3, 5)
    assert storage.homes.ledger(1).resolve(range(5, 9), NO_LIMIT) is None
    assert storage.homes.ledger(1).resolve(range(9, 12), NO_LIMIT) is None
    with pytest.raises(NoSuchLedgerError):
        storage.homes.ledger(2).resolve(range(1), NO_LIMIT)


def test_a_striped_ledger_is_read_by_ids(storage: BookieStorage) -> None:
    ids = array("q", [0, 2, 3, 5, 1500])
    batch = batch_of(1, ids)
    add_batches(storage.homes, [batch])

    assert read_all(storage, 1, ids) == batch.body
    assert read_all(storage, 1, array("q", [2, 5])) == b"".join(
        entries_in(batch)[e] for e in (2, 5)
    )
    resolved = storage.homes.ledger(1).resolve(array("q", [2, 4, 5]), NO_LIMIT)
    assert resolved is not None
    assert list(resolved.entry_ids) == [2]


def test_an_answer_is_limited_by_size(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(3000), 100)])

    resolved = storage.homes.ledger(1).resolve(range(3000), 10_000)
    assert resolved is not None
    assert 10_000 // 148 <= len(resolved.entry_ids) <= 1024, "no more is looked up than needed"
    count, body = storage.home_of(resolved).fetch(resolved)
    assert count == 10_000 // 148
    assert len(body) == count * 148


def test_what_changed_of_a_ledger_is_known(storage: BookieStorage) -> None:
    assert storage.homes.info(2) is None
    storage.homes.place(2).home.cache.set_ledger_key(2, KEY, LedgerType.VD_JOURNAL)
    add_batches(storage.homes, [batch_of(2, range(10))])
    storage.homes.ledger(2).index.set_fenced()
    storage.homes.ledger(2).index.set_explicit_lac(7)
    storage.homes.ledger(2).index.set_last_add_synced(5)

    info = storage.homes.info(2)

    assert info is not None
    assert (info.ledger_key, info.ledger_type) == (KEY, LedgerType.VD_JOURNAL)
    assert (info.is_fenced, info.explicit_lac) == (True, 7)
    assert (info.last_add_synced, info.last_entry_id) == (5, 9)
    assert storage.homes.ledger(2).index.contiguous_until(-1) == 9


def test_held_ranges_can_be_walked_in_parts(storage: BookieStorage) -> None:
    for first, last in ((0, 9), (12, 12), (1000, 1100), (5000, 5001)):
        add_batches(storage.homes, [batch_of(1, range(first, last + 1))])
    everything = [(0, 9), (12, 12), (1000, 1100), (5000, 5001)]

    def held(first: int, ranges: int, entries: int) -> tuple[list[tuple[int, int]], int | None]:
        return storage.homes.ledger(1).held_ranges(
            first, range_count_max=ranges, entry_count_max=entries
        )

    assert held(0, 100, 10**9) == (everything, None)
    assert held(5, 100, 10**9) == ([(5, 9), *everything[1:]], None)
    assert held(0, 2, 10**9) == (everything[:2], 1000)
    assert held(0, 100, 11) == (everything[:2], 1000)
    assert held(1000, 2, 10**9) == (everything[2:], None)
    assert held(6000, 2, 10**9) == ([], None)


# ---------------------------------------------------------------- entries that are here already


def test_the_same_entries_are_recognised_whatever_batch_they_come_in(
    storage: BookieStorage,
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10)), batch_of(1, range(20, 30))])

    assert presence(storage, batch_of(1, range(30, 40))) is Presence.NONE
    assert presence(storage, batch_of(1, range(10, 20))) is Presence.NONE
    assert presence(storage, batch_of(1, range(10))) is Presence.SAME
    assert presence(storage, batch_of(1, range(3, 5))) is Presence.SAME
    assert presence(storage, batch_of(1, array("q", [1, 5, 25]))) is Presence.SAME
    assert presence(storage, batch_of(1, range(5, 25))) is Presence.PART
    assert presence(storage, batch_of(1, array("q", [1, 15]))) is Presence.PART
    with pytest.raises(NoSuchLedgerError):
        presence(storage, batch_of(2, range(1)))


@pytest.mark.parametrize("entry_ids", [range(10), range(5, 10), array("q", [3, 9])])
def test_other_bytes_under_the_same_id_are_told(
    storage: BookieStorage, entry_ids: "range | array[int]"
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10))])

    other = batch_with_other_bytes(batch_of(1, entry_ids))

    assert storage.homes.ledger(other.ledger_id).presence(other) is Presence.OTHER


def test_another_size_under_the_same_id_is_told(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(10), 20)])

    assert presence(storage, batch_of(1, range(10), 21)) is Presence.OTHER


def test_what_is_missing_of_a_batch_can_be_added(storage: BookieStorage) -> None:
    add_batches(storage.homes, [batch_of(1, range(5, 8))])
    batch = batch_of(1, range(10))

    missing = storage.homes.ledger(batch.ledger_id).missing_part(batch)
    assert list(missing.entry_ids) == [0, 1, 2, 3, 4, 8, 9]
    missing.validate()
    add_batches(storage.homes, [missing])

    assert read_all(storage, 1, range(10)) == batch.body
    assert storage.homes.ledger(batch.ledger_id).presence(batch) is Presence.SAME


def test_a_stored_entry_that_cannot_be_read_cannot_be_compared(
    disk: SimulatedDisk, storage: BookieStorage
) -> None:
    add_batches(storage.homes, [batch_of(1, range(10))])
    disk.remove_at_rest(disk.paths(".log")[0])

    with pytest.raises(EntryUnreadableError):
        presence(storage, batch_of(1, range(10)))


# ---------------------------------------------------------------- damage


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


# ---------------------------------------------------------------- restarts


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


# ---------------------------------------------------------------- failures and checkpoints


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
