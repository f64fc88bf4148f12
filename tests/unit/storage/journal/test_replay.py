"""Replay: everything promised comes back in order, and is durable then; forged bytes do not."""

import errno
from random import Random

import pytest

from tests.support.journals import (
    DIRECTORY,
    OWNER,
    SEGMENT_1,
    SEGMENT_SIZE,
    entries_record,
    open_journal,
    replay_all,
    written,
)
from tests.support.power_cuts import NothingKept
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import NoSpaceError, StorageFailedError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
)
from zbk.storage.journal.segment import NO_POSITION, segment_path


def test_an_empty_directory_is_an_empty_journal(disk: SimulatedDisk) -> None:
    disk.make_dirs(DIRECTORY)

    found, result = replay_all(disk)

    assert found == []
    assert result.end == NO_POSITION


def test_every_kind_of_record_comes_back_in_order(disk: SimulatedDisk) -> None:
    """B28: replayed records are compared after all of them were read."""
    records: list[JournalRecord] = [
        LedgerKeyRecord(1, bytes(16), LedgerType.VD_JOURNAL),
        entries_record(1),
        ExplicitLacRecord(1, 100),
        FenceRecord(1),
        entries_record(2),
    ]
    written(disk, records)

    found, result = replay_all(disk)

    assert found == records
    assert result.end.sequence == 7, "with the notes that all is synced"


def test_replay_begins_at_the_mark(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(n, count=20) for n in range(3)])
    mark = journal.position
    later = [entries_record(n, count=20) for n in range(3, 9)]
    for record in later:
        journal.append([record])
    journal.sync()

    assert journal.position.segment_id > mark.segment_id + 1
    assert replay_all(disk, mark)[0] == later
    assert replay_all(disk, journal.position)[0] == []


@pytest.mark.parametrize("seed", range(8))
def test_the_tail_is_synced_before_replay_returns(disk: SimulatedDisk, seed: int) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1), entries_record(2)])
    disk.process_crash()  # they are in the page cache only

    found, _ = replay_all(disk)
    disk.crash(Random(seed))

    assert replay_all(disk)[0] == found == [entries_record(1), entries_record(2)]


@pytest.mark.parametrize("segment_size", [SEGMENT_SIZE, 8 * SEGMENT_SIZE])
def test_what_a_failed_fsync_left_in_the_page_cache_only_is_durable_after_a_replay(
    disk: SimulatedDisk, segment_size: int
) -> None:
    """The pages count as written: an fsync alone succeeds, and the platter lacks them."""
    records: list[JournalRecord] = [entries_record(n, count=20) for n in range(9)]
    journal = open_journal(disk, segment_size=segment_size)
    journal.append(records[:1])
    journal.sync()
    for record in records[1:]:
        journal.append([record])
    disk.faults = [Fault("sync", errno.EIO, path_part=one) for one in disk.paths(".journal")]
    with pytest.raises(StorageFailedError):
        journal.sync()
    disk.process_crash()
    disk.faults = []

    assert replay_all(disk)[0] == records
    disk.crash(NothingKept())

    assert replay_all(disk)[0] == records


def test_a_torn_append_that_was_made_void_stays_so_after_a_failed_fsync(
    disk: SimulatedDisk,
) -> None:
    """The zeros over it are in the page cache only; without them it would hide what follows."""
    journal = open_journal(disk)
    journal.append([entries_record(1)])
    journal.sync()
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part=SEGMENT_1)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(2), entries_record(3, count=20)])
    disk.open(SEGMENT_1).sync()  # the operating system may write at any time
    rest = entries_record(4, count=60)
    journal.append([rest])
    assert journal.position.segment_id == 2
    disk.inode(SEGMENT_1).pending = []  # as a failed fsync leaves it
    disk.process_crash()

    assert replay_all(disk)[0] == [entries_record(1), rest]
    disk.crash(NothingKept())

    assert replay_all(disk)[0] == [entries_record(1), rest]


def test_what_the_records_say_to_be_synced_is_not_written_again(disk: SimulatedDisk) -> None:
    journal = written(disk, [entries_record(n, count=40) for n in range(9)])
    assert journal.position.segment_id > 3
    before = disk.change_count

    replay_all(disk)

    assert disk.change_count == before + 2, "the notes, and the end of the segment before them"


def test_the_journal_goes_on_in_a_new_segment(disk: SimulatedDisk) -> None:
    written(disk, [entries_record(1)], is_noted=False)
    _, result = replay_all(disk)

    journal = open_journal(disk, result.end)
    journal.append([entries_record(2)])
    journal.sync()

    assert journal.position.segment_id == 2
    assert replay_all(disk)[0] == [entries_record(1), entries_record(2)]


def test_records_of_a_files_earlier_life_are_never_taken(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    for n in range(6):  # short and long groups, so that old ones lie behind the new ends
        journal.append([entries_record(n, count=45)])
        journal.sync()
        journal.remove_before(journal.position)
    mark = journal.position
    records = [entries_record(50, count=10), entries_record(51, count=10)]
    for record in records:
        journal.append([record])
    journal.sync()
    last = disk.content(segment_path(DIRECTORY, journal.position.segment_id))
    assert last[journal.position.offset :].strip(b"\0"), "old bytes lie behind the end"

    found, result = replay_all(disk, mark)

    assert found == records
    assert result.cut_record_count == 0


def test_an_entry_that_holds_a_journal_cannot_pass_for_one(disk: SimulatedDisk) -> None:
    """A client that knows everything but the nonce sends records, and their write is torn."""
    other = SimulatedDisk()
    written(other, [entries_record(n) for n in range(4)])
    forged = other.content(SEGMENT_1)
    disk.make_dirs(DIRECTORY)
    journal = Journal(
        disk,
        DIRECTORY,
        owner=OWNER,
        start=NO_POSITION,
        fail_stop=FailStop(),
        segment_size=4 * SEGMENT_SIZE,
        draw_nonce=lambda: 12345,
    )
    journal.append([entries_record(1)])
    journal.sync()
    at = journal.position.offset
    journal.append([EntriesRecord(EntryBatch.of(1, range(1), [len(forged)], forged))])
    disk.process_crash()
    disk.flip_bit(SEGMENT_1, 8 * (at + 70))

    found, result = replay_all(disk)

    assert found == [entries_record(1)]
    assert result.cut_record_count == 0
