"""Reads the journal after a start, from the last log mark to its end: what counts as a torn tail.

Words: the journal *ends* where no record follows that fits the chain (next sequence, link to the
record before), neither in the segment nor at the start of the next one.

The bytes after the end are checked before any record is applied:

    no whole record                the tail of a write that was under way: cut off
    whole records, none of which   parts of writes that were under way at a loss of power, in an
    says that the missing one      order that the disk chose; none was ever promised: cut off
    was synced
    a whole record that says so    damage to promised records: refused, with nothing changed

A record says how far the journal was synced when it was written. So the third case covers all
damage to a group of records that was followed by a later group. The evidence for the last group is
the note that the journal writes when it is idle, and when it is closed.

A segment that has lost its header, or is shorter than it was made, is refused, too: the journal
never makes a segment shorter, and the missing part may have had the evidence.

Cutting off means: segments after the end are removed, durably, and zeros are written over the
headers of records after the end in its segment. Then everything replayed is fsynced, because after
``kill -9`` it may be in the page cache only. What no record says to be synced is written again for
that (``zbk.storage.disk.write_again``): the bookie may serve it before the next checkpoint. With it
goes what follows the last record of each segment: zeros there keep a torn append from counting. The
bookie continues in a new segment. After a crash at any step the journal replays to the same end.

All journals are checked before any record is applied; ``check`` and ``apply`` are these two steps.
The keys of ledgers are applied first: records of a ledger may be in two journals, if one was out of
service meanwhile, and records of a ledger without a known key are not applied.

Runs once, before the bookie serves. Source: BookKeeper's ``Journal.scanJournal``, made strict.
"""

from collections.abc import Callable
from contextlib import closing

import msgspec

from zbk.errors import CorruptJournalError
from zbk.storage.disk.fail_stop import FailStop, as_failed_read
from zbk.storage.disk.write_again import write_again
from zbk.storage.journal.record import (
    RECORD_HEADER_SIZE,
    DecodedRecord,
    JournalRecord,
    SyncedRecord,
)
from zbk.storage.journal.segment import (
    FIRST_SEGMENT_ID,
    NO_POSITION,
    SEGMENT_HEADER_SIZE,
    JournalPosition,
    segment_ids,
    segment_path,
)
from zbk.storage.journal.segment_reader import SegmentReader
from zbk.system.files import File, FileSystem


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay."""

    end: JournalPosition  # where the journal continues, in a segment with a higher id
    record_count: int
    cut_record_count: int  # whole records after the end, none of them ever promised


class JournalReplay:
    """One journal, from ``mark`` on: ``check`` comes first, ``apply`` after it.

    ``mark`` is ``None`` when no checkpoint has ever ended: all of the journal is replayed.

    Raises:
        CorruptJournalError: promised records are damaged or missing; nothing was changed on disk.
        CookieMismatchError: the journal is another bookie's.
        NoSpaceError: from ``apply``: the disk has no space for bytes that are written again.
        StorageFailedError: from ``check`` and ``apply``: reading, cutting or syncing failed.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        mark: JournalPosition | None,
        *,
        owner: bytes,
        fail_stop: FailStop | None = None,
    ) -> None:
        self._files = files
        self._directory = directory
        self._mark = mark
        self._owner = owner
        self._fail_stop = fail_stop or FailStop()
        self._ids = _ids_from(files, directory, mark)  # of the segments to read, ascending
        self._end = (0, 0)  # place of the last segment, offset there
        self._ends: list[int] = []  # the offset of the end of each segment up to there
        self._evidence = 0  # records up to this sequence were synced, as the records say
        self._synced_end = (0, 0)  # of these records: place of the segment, offset there
        self._cut_record_count = 0
        self._record_count = 0
        self._sequence = 0
        self._link = 0

    def check(self, on_record: Callable[[JournalRecord], None]) -> None:
        """Pass each record to ``on_record``, and check the bytes after the end; change nothing."""
        with as_failed_read(self._directory, "replay"):
            self._check(on_record)

    def apply(self, on_record: Callable[[JournalRecord], None]) -> ReplayResult:
        """Pass each record to ``on_record`` again; cut and sync the tail."""
        if self._ids:
            with as_failed_read(self._directory, "replay"):
                end = self._walk(on_record)
            assert end == self._end, "the journal has changed while it was replayed"
            with self._fail_stop.guard(self._directory, "replay"):
                self._cut(*end)
        return self._result()

    def look(self) -> ReplayResult:
        """Return what ``apply`` would, and change nothing.

        Raises:
            OSError: the journal cannot be read.
        """
        self._check(lambda _record: None)
        return self._result()

    def _check(self, on_record: Callable[[JournalRecord], None]) -> None:
        if not self._ids:
            return
        for place in range(len(self._ids)):
            with self._reader(place) as reader:
                self._check_whole(reader)
        self._end = self._walk(on_record)
        self._cut_record_count = self._look_behind(*self._end)

    def _check_whole(self, reader: SegmentReader) -> None:
        if not reader.has_header:
            raise CorruptJournalError(reader.path, 0, "no header of a segment in use")
        if reader.missing_size:
            told = f"the file was made longer by at least {reader.missing_size} bytes"
            raise CorruptJournalError(reader.path, 0, f"its end is missing: {told}")

    def _result(self) -> ReplayResult:
        if not self._ids:
            return ReplayResult(NO_POSITION, 0, 0)
        goes_on = JournalPosition(self._ids[-1], SEGMENT_HEADER_SIZE, self._sequence, self._link)
        return ReplayResult(goes_on, self._record_count, self._cut_record_count)

    def _walk(self, on_record: Callable[[JournalRecord], None]) -> tuple[int, int]:
        """Pass on each record up to the end; return the place of its segment, and the offset."""
        offset, self._sequence, self._link = SEGMENT_HEADER_SIZE, 0, 0
        if self._mark is not None:
            offset = self._mark.offset
            self._sequence, self._link = self._mark.sequence, self._mark.link
        self._record_count = 0
        self._synced_end = (0, offset)
        self._ends = [self._replay_segment(0, offset, on_record)]
        while len(self._ends) < len(self._ids) and self._continues_in(len(self._ends)):
            place = len(self._ends)
            self._ends.append(self._replay_segment(place, SEGMENT_HEADER_SIZE, on_record))
        return len(self._ends) - 1, self._ends[-1]

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
                self._evidence = max(self._evidence, decoded.synced_sequence)
                if decoded.sequence <= self._evidence:  # ``check`` has found the highest
                    self._synced_end = (place, offset)

    def _continues_in(self, place: int) -> bool:
        with self._reader(place) as reader:
            first = reader.record_at(SEGMENT_HEADER_SIZE)
            return first is not None and self._is_next(first)

    def _is_next(self, decoded: DecodedRecord) -> bool:
        return decoded.sequence == self._sequence + 1 and decoded.previous == self._link

    def _look_behind(self, end_place: int, end_offset: int) -> int:
        """Return the number of whole records after the end.

        Raises:
            CorruptJournalError: one of them says that a missing record was synced.
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
                f"record {self._sequence + 1} was synced and cannot be read",
            )

    def _cut(self, end_place: int, end_offset: int) -> None:
        # later segments first: a crash in between leaves an end with less after it
        later_ids = self._ids[end_place + 1 :]
        for segment_id in reversed(later_ids):
            self._files.remove(segment_path(self._directory, segment_id))
        self._files.sync_dir(self._directory)
        behind = self._starts_behind(end_place, end_offset)
        for place, segment_id in enumerate(self._ids[: end_place + 1]):
            with closing(self._files.open(segment_path(self._directory, segment_id))) as file:
                if place == end_place:
                    for offset in behind:
                        file.pwrite([bytes(RECORD_HEADER_SIZE)], offset)
                self._write_unsynced_again(file, place)
                file.sync()

    def _write_unsynced_again(self, file: File, place: int) -> None:
        """Write the records of a segment without evidence, and what follows the last one, again."""
        synced_place, synced_offset = self._synced_end
        if place >= synced_place:
            start = synced_offset if place == synced_place else SEGMENT_HEADER_SIZE
            write_again(file, start, self._ends[place] + RECORD_HEADER_SIZE)

    def _starts_behind(self, end_place: int, end_offset: int) -> list[int]:
        """Return the starts of whole records after the end in its segment, and of a torn one."""
        with self._reader(end_place) as reader:
            starts = [end_offset] if any(reader.head_at(end_offset)) else []
            offset = end_offset
            while (found := reader.find(offset)) is not None:
                offset = found[1].end_offset
                starts.append(found[0])
            return starts


def _ids_from(files: FileSystem, directory: str, mark: JournalPosition | None) -> list[int]:
    ids = segment_ids(files, directory)
    if mark is None:
        if ids and ids[0] != FIRST_SEGMENT_ID:
            path = segment_path(directory, ids[0])
            raise CorruptJournalError(path, 0, "earlier segments are missing without a mark")
        return ids
    if mark.segment_id not in ids:
        path = segment_path(directory, mark.segment_id)
        raise CorruptJournalError(path, mark.offset, "the file of the last log mark is missing")
    return ids[ids.index(mark.segment_id) :]
