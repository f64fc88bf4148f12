"""Inspects one journal segment: its records, and its damage.

The bytes after the last whole record may be zeros, a record that was being written at a crash or is
being written now, that record damaged since, or bytes of an earlier use of the file. Zeros are
clean. A record with the sequence or the link that comes next is a fault. The origin of other bytes
is unknown: the verdict is an open end, which most segments have that a bookie used again.

Source: BookKeeper's ``ReadJournalFilesCommand``; the rules are those of ``journal_replay``.
"""

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError
from zbk.storage.journal.record import (
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    DecodedRecord,
)
from zbk.storage.journal.segment import (
    COPY_OFFSETS,
    PAGE_SIZE,
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    decode_copies,
    segment_seed_of,
)
from zbk.storage.journal.segment_reader import RecordReader
from zbk.storage.tools.inspection import Fault, Inspection, Verdict, id_in_name
from zbk.system.files import File, FileSystem

_WINDOW_SIZE: Final = 1024 * 1024
_NAME_DIGIT_COUNT: Final = 16
_SEQUENCE_AND_PREVIOUS = struct.Struct("<8xQ8xQ")


class Chain(msgspec.Struct, frozen=True):
    """The record that the next one has to follow."""

    sequence: int
    link: int

    def is_next(self, decoded: DecodedRecord) -> bool:
        """Return whether a record follows this one."""
        return decoded.sequence == self.sequence + 1 and decoded.previous == self.link


class FoundRecord(msgspec.Struct, frozen=True):
    """A whole record."""

    offset: int
    decoded: DecodedRecord


class JournalInspection(Inspection[FoundRecord]):
    """One segment. ``before`` is the end of the segment before it, if that is known."""

    def __init__(self, files: FileSystem, path: str, before: Chain | None = None) -> None:
        super().__init__(files, path)
        self.header: SegmentHeader | None = None
        self.end: Chain | None = before  # where the next segment continues
        self.record_count = 0
        self.first_sequence: int | None = None
        self.synced_sequence = 0  # the last record that a later one reports as synced
        self.end_offset = self._offset = SEGMENT_HEADER_SIZE
        self._verdict = Verdict.CLEAN

    @property
    def verdict(self) -> Verdict:
        """The result. Only after all findings."""
        return Verdict.DAMAGED if self.fault_count else self._verdict

    def _read(self, file: File) -> Iterator[FoundRecord | Fault]:
        yield from self._header(file)
        if self.header is not None:
            yield from self._records(file, self.header)

    def _header(self, file: File) -> Iterator[Fault]:
        data = file.pread(SEGMENT_HEADER_SIZE, 0)
        if len(data) < SEGMENT_HEADER_SIZE:
            yield Fault(0, len(data), "ends inside the header")
        if len(data) == SEGMENT_HEADER_SIZE and not any(data) and not _has_bytes(file, len(data)):
            self._verdict = Verdict.UNUSED
            return
        named = id_in_name(self._path, _NAME_DIGIT_COUNT)
        copies = decode_copies(data)
        whole = [copy for copy in copies if copy is not None]
        fitting = [copy for copy in whole if copy.segment_id == named]
        if whole and named is not None and not fitting:
            # an old file gets its name before its header is written
            self._verdict = Verdict.UNUSED
            return
        chosen = next(iter(fitting or whole), None)
        for offset, copy in zip(COPY_OFFSETS, copies, strict=True):
            if copy is None:
                yield Fault(offset, 0, "this copy of the header is damaged")
            elif copy != chosen:
                yield Fault(offset, 0, "this copy of the header is of an earlier use of the file")
        if chosen is None:
            yield Fault(0, file.size(), "without a header no record can be recognized")
        elif file.size() < chosen.page_count * PAGE_SIZE:
            told = "the file was longer, and its end is missing"
            yield Fault(file.size(), 0, told)
        self.header = chosen

    def _records(self, file: File, header: SegmentHeader) -> Iterator[FoundRecord | Fault]:
        reader = RecordReader(file, segment_seed_of(header))
        while True:
            try:
                decoded = reader.read(self.end_offset)
            except CorruptRecordError as error:
                found = reader.find(self.end_offset)
                if found is None:
                    yield from self._tail(file, error.reason)
                    return
                offset, decoded = found
                yield self._gap(offset, decoded, error.reason)
                self.end = None
                self.end_offset = self._offset = offset
            if self.end is not None and not self.end.is_next(decoded):
                yield Fault(
                    self.end_offset,
                    0,
                    f"record {decoded.sequence} does not follow record {self.end.sequence}",
                )
            yield FoundRecord(self.end_offset, decoded)
            self._note(decoded)

    def _note(self, decoded: DecodedRecord) -> None:
        self.record_count += 1
        if self.first_sequence is None:
            self.first_sequence = decoded.sequence
        self.synced_sequence = max(self.synced_sequence, decoded.synced_sequence)
        self.end = Chain(decoded.sequence, decoded.checksum)
        self.end_offset = self._offset = decoded.end_offset

    def _gap(self, offset: int, decoded: DecodedRecord, reason: str) -> Fault:
        known = decoded.sequence - 1 if self.end is None else self.end.sequence
        was_synced = decoded.synced_sequence > known
        told = (
            "the bytes here had been synced"
            if was_synced
            else "the bytes here may never have been synced"
        )
        size = offset - self.end_offset
        return Fault(self.end_offset, size, f"{reason}; {told}; record {decoded.sequence} follows")

    def _tail(self, file: File, reason: str) -> Iterator[Fault]:
        """Judge the bytes after the last whole record."""
        size = max(0, file.size() - self.end_offset)
        head = file.pread(RECORD_HEADER_SIZE, self.end_offset)
        if _is_begun(head, self.end):
            told = "a write cut off, or under way, or damaged since"
            yield Fault(self.end_offset, size, f"{reason}: {told}")
        elif _has_bytes(file, self.end_offset):
            self._verdict = Verdict.OPEN_END


def _is_begun(head: bytes, end: Chain | None) -> bool:
    """Return whether this is the start of the next record, with the right sequence or link."""
    if end is None or not any(head):
        return False
    if len(head) < 16:  # neither sequence nor link is whole
        return RECORD_MAGIC.startswith(head[: len(RECORD_MAGIC)])
    sequence, previous = _SEQUENCE_AND_PREVIOUS.unpack(head[:32].ljust(32, b"\0"))
    is_linked = len(head) >= 32 and previous == end.link
    return sequence == end.sequence + 1 or is_linked


def _has_bytes(file: File, offset: int) -> bool:
    while window := file.pread(_WINDOW_SIZE, offset):
        if window != bytes(len(window)):
            return True
        offset += len(window)
    return False
