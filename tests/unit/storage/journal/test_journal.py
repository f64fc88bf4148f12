"""The journal's write side: groups, segments, promises, and the end after a failure."""

import errno
import threading
from collections.abc import Sequence

import pytest

from tests.support.journals import (
    DIRECTORY,
    OWNER,
    SEGMENT_SIZE,
    entries_record,
    open_journal,
    replay_all,
)
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import StorageFailedError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.journal import NOTE_DISTANCE, Journal
from zbk.storage.journal.record import SyncedRecord
from zbk.storage.journal.segment import NO_POSITION, SEGMENT_HEADER_SIZE, segment_ids, segment_path
from zbk.system.files import Buffer, File, OsFiles


def test_a_list_of_records_is_one_write(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    before = disk.operation_count

    journal.append([entries_record(n) for n in range(5)])

    assert disk.operation_count == before + 1


def test_position_is_behind_the_last_record(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    start = journal.position

    position = journal.append([entries_record(1), entries_record(2)])

    assert (start.segment_id, start.offset, start.sequence) == (1, SEGMENT_HEADER_SIZE, 0)
    size = entries_record(1).size + entries_record(2).size
    assert (position.segment_id, position.offset) == (1, SEGMENT_HEADER_SIZE + size)
    assert position.sequence == 2
    assert journal.position == position
    assert journal.write_size == size


def test_sync_promises_what_was_written(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    written = journal.append([entries_record(1)])
    assert journal.synced_position < written

    assert journal.sync() == written
    assert journal.synced_position == written


def test_sync_with_nothing_new_does_not_touch_the_disk(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1)])
    journal.sync()
    before = disk.operation_count

    journal.sync()

    assert disk.operation_count == before


def test_a_full_segment_is_left_and_synced_with_the_next(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    records = [entries_record(n, count=10) for n in range(8)]
    for record in records:
        journal.append([record])
    assert journal.position.segment_id > 1

    journal.sync()
    disk.process_crash()

    assert replay_all(disk)[0] == records


def test_a_list_is_never_split_over_segments(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1, count=20)])
    group = [entries_record(n, count=10) for n in range(2, 5)]

    position = journal.append(group)

    assert position.segment_id == 2
    assert position.offset == SEGMENT_HEADER_SIZE + sum(record.size for record in group)


def test_a_record_larger_than_a_segment_makes_its_segment_larger(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    records = [
        entries_record(1),
        entries_record(2, payload_size=2 * SEGMENT_SIZE),
        entries_record(3),
    ]
    for record in records:
        journal.append([record])
    journal.sync()

    assert journal.position.segment_id == 3
    assert replay_all(disk)[0] == records


def test_the_next_segment_is_prepared_once_half_of_this_one_is_written(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.prepare_next()
    assert segment_ids(disk, DIRECTORY) == [1]

    journal.append([entries_record(1, count=30)])
    journal.prepare_next()
    journal.prepare_next()
    assert segment_ids(disk, DIRECTORY) == [1, 2]
    assert len(disk.content(segment_path(DIRECTORY, 2))) == SEGMENT_SIZE

    operation_count = disk.operation_count
    journal.append([entries_record(2, count=30)])
    assert journal.position.segment_id == 2
    assert disk.operation_count == operation_count + 1, "one write, nothing to make"


def test_an_idle_journal_writes_down_once_that_it_is_synced(disk: SimulatedDisk) -> None:
    journal = open_journal(disk, segment_size=4 * SEGMENT_SIZE)
    journal.note_synced()
    assert journal.position.sequence == 0, "nothing is in doubt"
    journal.append([entries_record(1)])
    journal.note_synced()
    assert journal.position.sequence == 1, "not synced yet"

    journal.sync()
    journal.note_synced()
    journal.note_synced()
    journal.sync()
    journal.note_synced()

    assert journal.position.sequence == 3
    note_offset = journal.position.offset - SyncedRecord().size
    assert note_offset % NOTE_DISTANCE == 0, "the second note is in a page of its own"


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        *[(o, errno.EIO) for o in ("pwrite", "sync", "create", "allocate", "sync_dir", "rename")],
        *[(o, errno.ENOSPC) for o in ("sync", "sync_dir")],
    ],
)
def test_after_a_failure_nothing_is_promised_any_more(
    disk: SimulatedDisk, operation: str, error: int
) -> None:
    journal = open_journal(disk)
    if operation == "rename":
        for n in range(3):
            journal.append([entries_record(n, count=30)])
        journal.sync()
        journal.remove_before(journal.position)
    disk.faults = [Fault(operation, error)]

    def write_much() -> None:
        for n in range(10):
            journal.append([entries_record(n, count=30)])
            journal.sync()

    with pytest.raises(StorageFailedError, match=DIRECTORY):
        write_much()

    operation_count = disk.operation_count
    for refused in (
        journal.sync,
        lambda: journal.append([entries_record(11)]),
        lambda: journal.remove_before(journal.position),
    ):
        with pytest.raises(StorageFailedError):
            refused()
    journal.close()
    assert disk.operation_count == operation_count, "no second fsync, no further write"


def test_a_segment_that_cannot_be_prepared_or_removed_ends_the_journal(
    disk: SimulatedDisk,
) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1, count=30)])
    disk.faults = [Fault("create", errno.EIO)]
    with pytest.raises(StorageFailedError, match="create"):
        journal.prepare_next()

    other = SimulatedDisk()
    journal = open_journal(other)
    for n in range(3):
        journal.append([entries_record(n, count=30)])
    other.faults = [Fault("sync_dir", errno.EIO)]
    with pytest.raises(StorageFailedError, match="remove"):
        journal.remove_before(journal.position)
    with pytest.raises(StorageFailedError):
        journal.append([entries_record(9)])


def test_a_failed_fsync_does_not_move_the_promise(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1)])
    promised = journal.sync()
    journal.append([entries_record(2)])
    disk.faults = [Fault("sync", errno.EIO)]

    with pytest.raises(StorageFailedError, match="fsync"):
        journal.sync()

    assert journal.synced_position == promised


class _SlowSync(OsFiles):
    """Files of which one fsync waits until it may go on."""

    def __init__(self) -> None:
        self.is_next_slow = False
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        return _SlowFile(self, super().open(path, create=create, write=write))


class _SlowFile:
    def __init__(self, files: _SlowSync, file: File) -> None:
        self._files = files
        self._file = file
        self.pread, self.skip_zeros, self.allocate = file.pread, file.skip_zeros, file.allocate
        self.truncate, self.size, self.close = file.truncate, file.size, file.close

    @property
    def path(self) -> str:
        return self._file.path

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        return self._file.pwrite(buffers, offset)

    def sync(self) -> None:
        if self._files.is_next_slow:
            self._files.is_next_slow = False
            self._files.has_begun.set()
            assert self._files.may_end.wait(10)
        self._file.sync()


def test_the_writer_goes_on_while_a_sync_is_under_way(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    files = _SlowSync()
    journal = Journal(
        files,
        str(tmp_path_factory.mktemp("journal")),
        owner=OWNER,
        start=NO_POSITION,
        fail_stop=FailStop(),
        segment_size=SEGMENT_SIZE,
    )
    first = journal.append([entries_record(1)])
    files.is_next_slow = True
    syncer = threading.Thread(target=journal.sync)
    syncer.start()
    assert files.has_begun.wait(10)

    for n in range(2, 6):
        journal.append([entries_record(n, count=30)])  # rolls, too
    files.may_end.set()
    syncer.join(10)

    assert journal.synced_position == first, "only what was written before the sync began"
    assert journal.sync() == journal.position
    journal.close()
