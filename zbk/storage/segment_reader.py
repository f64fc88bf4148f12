"""Reads a journal segment through a window, so that its size does not matter.

Answers two questions: is there a whole record at this place, and where is the next one that is
whole, whatever lies before it. Nothing here knows which record should come next.
"""

from typing import Final, Self

from zbk.errors import CorruptRecordError
from zbk.storage.journal_record import (
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    DecodedRecord,
    decode_head_size,
    decode_record,
    decode_size,
)
from zbk.storage.journal_segment import (
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    decode_header,
    segment_path,
    segment_seed,
)
from zbk.system.files import FileSystem

WINDOW_SIZE: Final = 4 * 1024 * 1024
"""Bytes read at once; a larger record makes the window larger."""


class SegmentReader:
    """One segment, open for reading. Offsets are those of the file."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        segment_id: int,
        owner: bytes,
        window_size: int = WINDOW_SIZE,
    ) -> None:
        self.segment_id = segment_id
        self.path = segment_path(directory, segment_id)
        self._owner = owner
        self._seed = segment_seed(owner, segment_id)
        self._file = files.open(self.path, write=False)
        self._window_size = window_size
        self._window = b""
        self._window_start = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def header(self) -> SegmentHeader | None:
        """Return the header, or ``None`` if it is damaged or of another life of the file.

        Raises:
            CookieMismatchError: the segment is another bookie's.
        """
        head = self._file.pread(SEGMENT_HEADER_SIZE, 0)
        try:
            return decode_header(head, self.segment_id, self._owner, self.path)
        except CorruptRecordError:
            return None

    def record_at(self, offset: int) -> DecodedRecord | None:
        """Return the whole record at ``offset``, or ``None``; its ``end_offset`` is the file's."""
        try:
            self._fill(offset, RECORD_HEADER_SIZE)
            head_size = decode_head_size(self._window, offset - self._window_start)
            self._fill(offset, head_size)
            size = decode_size(self._window, offset - self._window_start, self._seed)
            self._fill(offset, size)
            decoded = decode_record(self._window, offset - self._window_start, self._seed)
        except CorruptRecordError:
            return None
        return DecodedRecord(
            decoded.record,
            decoded.sequence,
            decoded.synced_sequence,
            decoded.previous,
            decoded.checksum,
            offset + size,
        )

    def next_record(self, offset: int) -> DecodedRecord | None:
        """Return the first whole record that starts at ``offset`` or behind it, or ``None``."""
        while True:
            self._fill(offset, RECORD_HEADER_SIZE)
            found = self._window.find(RECORD_MAGIC, offset - self._window_start)
            if found >= 0:
                offset = self._window_start + found
                record = self.record_at(offset)
                if record is not None:
                    return record
                offset += 1
                continue
            window_end = self._window_start + len(self._window)
            if window_end - offset < RECORD_HEADER_SIZE:
                return None  # the end of the file: no room for a record
            offset = window_end - len(RECORD_MAGIC) + 1

    def _fill(self, offset: int, size: int) -> None:
        """Have the bytes from ``offset`` on in the window; fewer only at the end of the file."""
        start = self._window_start
        if start <= offset and offset + size <= start + len(self._window):
            return
        self._window = self._file.pread(max(size, self._window_size), offset)
        self._window_start = offset
