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
from zbk.errors import NoSpaceError, StorageFailedError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.journal import (
    NOTE_DISTANCE,
    Journal,
)
from zbk.storage.journal.record import SyncedRecord
from zbk.storage.journal.segment import (
    NO_POSITION,
    SEGMENT_HEADER_SIZE,
    segment_ids,
    segment_path,
    spare_ids,
)
from zbk.storage.journal.spares import SMALL_SEGMENT_SIZE, SPARE_COUNT, SPARE_FREE_FACTOR
from zbk.system.files import Buffer, File, OsFiles


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


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


def filled(disk: SimulatedDisk, count: int) -> Journal:
    """Return a journal that has left so many segments."""
    journal = open_journal(disk)
    fill(journal, count)
    return journal


def fill(journal: Journal, count: int) -> None:
    end = journal.position.segment_id + count
    while journal.position.segment_id < end:
        journal.append([entries_record(1, count=30)])
    journal.sync()


def test_segments_before_the_mark_become_spares_and_are_used_again(disk: SimulatedDisk) -> None:
    journal = filled(disk, 2)
    mark = journal.position

    assert journal.remove_before(mark) == 2
    assert segment_ids(disk, DIRECTORY) == [mark.segment_id]
    assert len(spare_ids(disk, DIRECTORY)) == 2
    assert journal.remove_before(mark) == 0

    journal.append([entries_record(99, count=30)])
    journal.sync()
    assert len(spare_ids(disk, DIRECTORY)) == 1
    assert replay_all(disk, mark)[0] == [entries_record(99, count=30)]


def test_as_many_segments_stay_spare_as_went_at_once(disk: SimulatedDisk) -> None:
    journal = filled(disk, 10)
    assert journal.remove_before(journal.position) == 10
    assert len(spare_ids(disk, DIRECTORY)) == 10

    fill(journal, 9)
    assert len(spare_ids(disk, DIRECTORY)) == 1, "they are used before others are made"
    assert journal.remove_before(journal.position) == 9
    assert len(spare_ids(disk, DIRECTORY)) == 9

    fill(journal, 1)
    assert journal.remove_before(journal.position) == 1
    assert len(spare_ids(disk, DIRECTORY)) == SPARE_COUNT, "of a light load few are needed"
    assert len(disk.list_dir(DIRECTORY)) == 1 + SPARE_COUNT
    assert replay_all(disk, journal.position)[0] == []


@pytest.mark.parametrize("room_count", [0, 6, 100])
def test_spares_take_an_eighth_of_what_is_free(disk: SimulatedDisk, room_count: int) -> None:
    journal = filled(disk, 10)
    disk.capacity = disk.used_size + SPARE_FREE_FACTOR * SEGMENT_SIZE * room_count

    journal.remove_before(journal.position)

    assert len(spare_ids(disk, DIRECTORY)) == min(10, room_count)


def test_a_disk_that_fills_takes_spares_away(disk: SimulatedDisk) -> None:
    journal = filled(disk, SPARE_COUNT)
    journal.remove_before(journal.position)
    assert len(spare_ids(disk, DIRECTORY)) == SPARE_COUNT
    disk.capacity = disk.used_size + SPARE_FREE_FACTOR * SEGMENT_SIZE

    fill(journal, 1)
    journal.remove_before(journal.position)

    assert len(spare_ids(disk, DIRECTORY)) == 1


def test_spares_are_given_up_when_asked_for(disk: SimulatedDisk) -> None:
    journal = filled(disk, 3)
    journal.prepare_next()
    mark = journal.position
    journal.remove_before(mark)

    journal.give_up_spares()
    journal.give_up_spares()

    assert spare_ids(disk, DIRECTORY) == []
    journal.append([entries_record(99, count=30)])
    journal.sync()
    assert replay_all(disk, mark)[0] == [entries_record(99, count=30)]


def test_a_spare_that_cannot_be_removed_now_is_removed_later(disk: SimulatedDisk) -> None:
    journal = filled(disk, 3)
    journal.remove_before(journal.position)
    disk.faults = [Fault("remove", errno.ENOSPC, skip_count=1)]
    with pytest.raises(NoSpaceError):
        journal.give_up_spares()
    assert len(spare_ids(disk, DIRECTORY)) == 2

    journal.give_up_spares()
    assert spare_ids(disk, DIRECTORY) == []


def test_spares_survive_a_restart(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1, count=30)])
    journal.append([entries_record(2, count=30)])
    journal.sync()
    journal.remove_before(journal.position)
    mark = journal.position
    disk.process_crash()

    _, result = replay_all(disk, mark)
    again = open_journal(disk, result.end)

    assert spare_ids(disk, DIRECTORY) == []
    assert again.position.segment_id == mark.segment_id + 1


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


# ---------------------------------------------------------------- a full disk


def test_an_append_that_found_no_space_is_written_over_by_the_next(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    before = journal.append([entries_record(1)])
    disk.faults = [Fault("pwrite", errno.ENOSPC)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(2), entries_record(3)])
    assert journal.position == before

    journal.append([entries_record(4)])
    journal.sync()

    disk.process_crash()
    assert replay_all(disk)[0] == [entries_record(1), entries_record(4)]


@pytest.mark.parametrize("is_retried", [True, False])
def test_what_a_failed_append_left_does_not_hide_the_next_segment(
    disk: SimulatedDisk, is_retried: bool
) -> None:
    """A part of it, whole records, would continue the chain behind the end."""
    journal = open_journal(disk)
    journal.append([entries_record(1, count=20)])
    disk.faults = [Fault("pwrite", errno.ENOSPC)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(n) for n in range(2, 8)])
    found = [entries_record(1, count=20)]
    if is_retried:
        journal.append([entries_record(2)])
        found.append(entries_record(2))
    segment_id = journal.position.segment_id

    journal.append([entries_record(9, count=40)])
    journal.sync()

    assert journal.position.segment_id > segment_id, "the test wants a new segment"
    disk.process_crash()
    assert replay_all(disk)[0] == [*found, entries_record(9, count=40)]


@pytest.mark.parametrize("operation", ["create", "allocate", "pwrite"])
def test_a_segment_that_found_no_space_is_taken_away_and_made_later(
    disk: SimulatedDisk, operation: str
) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1, count=30)])
    # with "allocate": neither a whole one nor a small one
    disk.faults = [Fault(operation, errno.ENOSPC) for _ in range(2)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(2, count=40)])
    assert segment_ids(disk, DIRECTORY) == [1]
    disk.faults = []

    journal.append([entries_record(2, count=40)])
    journal.sync()

    assert segment_ids(disk, DIRECTORY) == [1, 2]
    disk.process_crash()
    assert replay_all(disk)[0] == [entries_record(1, count=30), entries_record(2, count=40)]


def test_without_room_for_a_whole_segment_a_small_one_is_made(disk: SimulatedDisk) -> None:
    disk.make_dirs(DIRECTORY)
    disk.capacity = SMALL_SEGMENT_SIZE
    journal = open_journal(disk, segment_size=4 * SMALL_SEGMENT_SIZE)
    assert disk.used_size == SMALL_SEGMENT_SIZE
    assert journal.room_size == SMALL_SEGMENT_SIZE - SEGMENT_HEADER_SIZE

    large = [entries_record(n, payload_size=10_000) for n in range(40)]
    disk.capacity = 4 * SMALL_SEGMENT_SIZE
    journal.append(large)
    journal.append(large)
    journal.sync()

    assert segment_ids(disk, DIRECTORY) == [1, 2]
    disk.process_crash()
    assert replay_all(disk)[0] == large + large


def test_a_spare_is_used_though_there_is_no_space(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    for n in range(3):
        journal.append([entries_record(n, count=40)])
        journal.sync()
    journal.remove_before(journal.position)
    assert spare_ids(disk, DIRECTORY)
    disk.capacity = disk.used_size

    journal.append([entries_record(4, count=40)])
    journal.sync()

    assert journal.position.segment_id == 4


def test_a_removal_that_found_no_space_goes_on_where_it_stopped(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    for n in range(4):
        journal.append([entries_record(n, count=40)])
        journal.sync()
    disk.faults = [Fault("rename", errno.ENOSPC, skip_count=1)]
    with pytest.raises(NoSpaceError):
        journal.remove_before(journal.position)

    assert journal.remove_before(journal.position) == 2
    assert segment_ids(disk, DIRECTORY) == [4]
