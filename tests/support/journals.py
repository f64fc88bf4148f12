"""A small journal on a simulated disk, and records for it."""

from collections.abc import Callable

from tests.support.batches import batch_of
from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.record import EntriesRecord, JournalRecord
from zbk.storage.journal.replay import JournalReplay, ReplayResult
from zbk.storage.journal.segment import (
    NO_POSITION,
    SEGMENT_HEADER_SIZE,
    JournalPosition,
    segment_path,
)
from zbk.system.files import FileSystem

OWNER = b"bookie-1"
DIRECTORY = "/j"
SEGMENT_1 = segment_path(DIRECTORY, 1)
SEGMENT_SIZE = SEGMENT_HEADER_SIZE + 4096


def entries_record(number: int, count: int = 2, payload_size: int = 30) -> EntriesRecord:
    """Return a record that differs from those with other numbers."""
    first = number * 100
    return EntriesRecord(batch_of(1, range(first, first + count), payload_size))


def open_journal(
    disk: SimulatedDisk, start: JournalPosition = NO_POSITION, segment_size: int = SEGMENT_SIZE
) -> Journal:
    """Return a journal that goes on behind ``start``."""
    disk.make_dirs(DIRECTORY)
    return Journal(
        disk,
        DIRECTORY,
        owner=OWNER,
        start=start,
        fail_stop=FailStop(),
        segment_size=segment_size,
        draw_nonce=lambda: disk.operation_count,
    )


def written(
    disk: SimulatedDisk,
    records: list[JournalRecord],
    *,
    is_noted: bool = True,
    segment_size: int = SEGMENT_SIZE,
) -> Journal:
    """Append and sync records one by one; the journal is closed well, or only synced."""
    journal = open_journal(disk, segment_size=segment_size)
    for record in records:
        journal.append([record])
        journal.sync()
    if is_noted:
        journal.close()
    disk.process_crash()
    return journal


def replay(
    files: FileSystem,
    directory: str,
    mark: JournalPosition | None,
    on_record: Callable[[JournalRecord], None],
    *,
    owner: bytes,
) -> ReplayResult:
    """Check a journal and apply its records, as a start does."""
    found = JournalReplay(files, directory, mark, owner=owner)
    found.check(lambda _record: None)
    return found.apply(on_record)


def replay_all(
    disk: SimulatedDisk, mark: JournalPosition | None = None
) -> tuple[list[JournalRecord], ReplayResult]:
    """Return what a replay finds, in order."""
    found: list[JournalRecord] = []
    result = replay(disk, DIRECTORY, mark, found.append, owner=OWNER)
    return found, result
