"""Reads the journal after a start: from the last log mark to its end, and no further.

Words: the journal *ends* where no record follows that fits the chain (next sequence, link to the
record before), neither in the segment nor at the start of the next one.

What lies behind the end is looked at before anything is trusted:

    nothing whole                  the tail of a write that was under way: cut off
    whole records, none of which   parts of writes that were under way at a power loss, in the
    says that the missing one      order the disk liked; none of it was ever promised: cut off
    was synced
    a whole record that says so    damage to what was promised: refused, nothing is touched

A record says how far the journal was synced when it was written, so the third case covers every
damage to a group of records that at least one later group followed. For the last group of all the
evidence is the note that the journal writes when it is idle, and when it is closed.

Cutting off means: segments behind the end are removed, durably, and the segment of the end is made
shorter; then everything replayed is fsynced, because after ``kill -9`` it may live in the page
cache only. The bookie goes on in a new segment. A crash at any step leaves a journal that replays
to the same end.

Runs once, before the bookie serves. Source: BookKeeper's ``Journal.scanJournal``, made strict.
"""

from collections.abc import Callable

import msgspec

from zbk.errors import CorruptJournalError, StorageFailedError
from zbk.storage.journal_record import DecodedRecord, JournalRecord, SyncedRecord
from zbk.storage.journal_segment import (
    NO_POSITION,
    SEGMENT_HEADER_SIZE,
    JournalPosition,
    segment_ids,
    segment_path,
)
from zbk.storage.segment_reader import SegmentReader
from zbk.system.files import FileSystem


class ReplayResult(msgspec.Struct, frozen=True):
    """What was replayed."""

    end: JournalPosition  # where the journal goes on, in a segment with a higher id
    record_count: int
    cut_record_count: int  # whole records behind the end, none of them ever promised


def replay(
    files: FileSystem,
    directory: str,
    mark: JournalPosition | None,
    on_record: Callable[[JournalRecord], None],
    *,
    owner: bytes,
) -> ReplayResult:
    """Hand each record from ``mark`` to the end to ``on_record``; cut and sync the tail.

    ``mark`` is ``None`` when no checkpoint has ever ended: all of the journal is replayed.

    Raises:
        CorruptJournalError: promised records are damaged or missing; nothing was changed on disk.
        CookieMismatchError: the journal is another bookie's.
        StorageFailedError: reading, cutting or syncing failed.
    """
    ids = _ids_from(files, directory, mark)
    if not ids:
        return ReplayResult(NO_POSITION, 0, 0)
    try:
        return _Replay(files, directory, ids, owner).run(mark, on_record)
    except OSError as error:
        raise StorageFailedError(directory, "replay", str(error)) from error


def look(
    files: FileSystem, directory: str, mark: JournalPosition | None, *, owner: bytes
) -> ReplayResult:
    """Return what ``replay`` would, and change nothing.

    Raises:
        CorruptJournalError, CookieMismatchError: as ``replay``.
        OSError: it can not be read.
    """
    ids = _ids_from(files, directory, mark)
    if not ids:
        return ReplayResult(NO_POSITION, 0, 0)
    return _Replay(files, directory, ids, owner).look(mark)


def _ids_from(files: FileSystem, directory: str, mark: JournalPosition | None) -> list[int]:
    ids = segment_ids(files, directory)
    if mark is None:
        return ids
    if mark.segment_id not in ids:
        path = segment_path(directory, mark.segment_id)
        raise CorruptJournalError(path, mark.offset, "the file of the last log mark is missing")
    return ids[ids.index(mark.segment_id) :]


class _Replay:
    def __init__(self, files: FileSystem, directory: str, ids: list[int], owner: bytes) -> None:
        self._files = files
        self._directory = directory
        self._ids = ids  # of the segments to look at, ascending
        self._owner = owner
        self._record_count = 0
        self._sequence = 0
        self._link = 0

    def run(
        self, mark: JournalPosition | None, on_record: Callable[[JournalRecord], None]
    ) -> ReplayResult:
        # twice: nothing is touched, here or by whoever takes the records, before it is all checked
        place, offset, cut_record_count = self._look(mark)
        end = self._walk(mark, on_record)
        assert end == (place, offset), "the journal has changed while it was replayed"
        self._cut(place, offset)
        return self._result(cut_record_count)

    def look(self, mark: JournalPosition | None) -> ReplayResult:
        _, _, cut_record_count = self._look(mark)
        return self._result(cut_record_count)

    def _look(self, mark: JournalPosition | None) -> tuple[int, int, int]:
        """Return place and offset of the end, and how many whole records lie behind it."""
        if mark is not None:
            with self._reader(0) as reader:
                if not reader.has_header:
                    raise CorruptJournalError(reader.path, 0, "no header of a segment in use")
        place, offset = self._walk(mark, lambda _: None)
        return place, offset, self._look_behind(place, offset)

    def _result(self, cut_record_count: int) -> ReplayResult:
        goes_on = JournalPosition(self._ids[-1], SEGMENT_HEADER_SIZE, self._sequence, self._link)
        return ReplayResult(goes_on, self._record_count, cut_record_count)

    def _walk(
        self, mark: JournalPosition | None, on_record: Callable[[JournalRecord], None]
    ) -> tuple[int, int]:
        """Hand over each record up to the end; return the place of its segment, and the offset."""
        offset, self._sequence, self._link = SEGMENT_HEADER_SIZE, 0, 0
        if mark is not None:
            offset, self._sequence, self._link = mark.offset, mark.sequence, mark.link
        self._record_count = 0
        place = 0
        offset = self._replay_segment(0, offset, on_record)
        while place + 1 < len(self._ids) and self._continues_in(place + 1):
            place += 1
            offset = self._replay_segment(place, SEGMENT_HEADER_SIZE, on_record)
        return place, offset

    def _reader(self, place: int) -> SegmentReader:
        return SegmentReader(self._files, self._directory, self._ids[place], self._owner)

    def _replay_segment(
        self, place: int, offset: int, on_record: Callable[[JournalRecord], None]
    ) -> int:
        with self._reader(place) as reader:
            while True:
                decoded = reader.record_at(offset)
                if decoded is None or not self._is_next(decoded):
                    return offset
                if not isinstance(decoded.record, SyncedRecord):
                    on_record(decoded.record)
                self._record_count += 1
                self._sequence, self._link = decoded.sequence, decoded.checksum
                offset = decoded.end_offset

    def _continues_in(self, place: int) -> bool:
        with self._reader(place) as reader:
            first = reader.record_at(SEGMENT_HEADER_SIZE)
            return first is not None and self._is_next(first)

    def _is_next(self, decoded: DecodedRecord) -> bool:
        return decoded.sequence == self._sequence + 1 and decoded.previous == self._link

    def _look_behind(self, end_place: int, end_offset: int) -> int:
        """Return how many whole records lie behind the end.

        Raises:
            CorruptJournalError: one of them says that what is missing had been synced.
        """
        count = 0
        for place in range(end_place, len(self._ids)):
            with self._reader(place) as reader:
                offset = end_offset if place == end_place else SEGMENT_HEADER_SIZE
                while (decoded := reader.next_record(offset)) is not None:
                    self._check_evidence(decoded.synced_sequence, end_place, end_offset)
                    count += 1
                    offset = decoded.end_offset
        return count

    def _check_evidence(self, synced_sequence: int, end_place: int, end_offset: int) -> None:
        if synced_sequence > self._sequence:
            raise CorruptJournalError(
                segment_path(self._directory, self._ids[end_place]),
                end_offset,
                f"record {self._sequence + 1} was synced and can not be read",
            )

    def _cut(self, end_place: int, end_offset: int) -> None:
        # later segments first: a crash in between leaves an end with less behind it
        later_ids = self._ids[end_place + 1 :]
        for segment_id in reversed(later_ids):
            self._files.remove(segment_path(self._directory, segment_id))
        self._files.sync_dir(self._directory)
        for segment_id in self._ids[: end_place + 1]:
            file = self._files.open(segment_path(self._directory, segment_id))
            try:
                if segment_id == self._ids[end_place] and file.size() > end_offset:
                    file.truncate(end_offset)
                file.sync()
            finally:
                file.close()
