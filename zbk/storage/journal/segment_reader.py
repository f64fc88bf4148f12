"""Reads a journal segment through a window, so that its size does not matter.

It answers two questions: is there a whole record at a place, and where is the next whole record
after any bytes. The caller knows which record should come next: where a journal ends, and what
counts as its torn tail, is ``replay``.
"""

from typing import Final, Self

from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.storage.journal.record import (
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    DecodedRecord,
    decode_head_size,
    decode_record,
    decode_size,
)
from zbk.storage.journal.segment import (
    PAGE_SIZE,
    SEGMENT_HEADER_SIZE,
    decode_header,
    segment_path,
    segment_seed_of,
)
from zbk.system.files import File, FileSystem

WINDOW_SIZE: Final = 4 * 1024 * 1024
"""Bytes read at once; a larger record makes the window larger."""


class RecordReader:
    """The records of one open segment, whose header says ``seed``. Offsets are those of the file.

    Raises:
        OSError: from each method: it cannot be read.
    """

    def __init__(self, file: File, seed: int, window_size: int = WINDOW_SIZE) -> None:
        self._file = file
        self._seed = seed
        self._window_size = window_size
        self._window = b""
        self._window_start = 0

    def read(self, offset: int) -> DecodedRecord:
        """Return the whole record at ``offset``; its ``end_offset`` is in the file.

        Raises:
            CorruptRecordError: there is none; the text has the reason.
        """
        if offset >= self._window_start:
            try:
                return self._decode(offset)
            except ShortRecordError:
                pass  # the window ends in it, or the file does
        self._fill(offset, RECORD_HEADER_SIZE)
        head_size = decode_head_size(self._window, offset - self._window_start)
        self._fill(offset, head_size)
        size = decode_size(self._window, offset - self._window_start, self._seed)
        checked_start = self._window_start
        self._fill(offset, size)
        known_size = size if checked_start == self._window_start else 0  # or checked anew
        return self._decode(offset, known_size)

    def _decode(self, offset: int, size: int = 0) -> DecodedRecord:
        start = self._window_start
        return decode_record(self._window, offset - start, self._seed, size=size, origin=start)

    def record_at(self, offset: int) -> DecodedRecord | None:
        """Return the whole record at ``offset``, or ``None``."""
        try:
            return self.read(offset)
        except CorruptRecordError:
            return None

    def next_record(self, offset: int) -> DecodedRecord | None:
        """Return the first whole record that starts at ``offset`` or after it, or ``None``."""
        found = self.find(offset)
        return None if found is None else found[1]

    def find(self, offset: int) -> tuple[int, DecodedRecord] | None:
        """Return the same record with the offset where it starts."""
        while True:
            self._fill(offset, RECORD_HEADER_SIZE)
            found = _find_magic(self._window, offset - self._window_start)
            if found >= 0:
                offset = self._window_start + found
                record = self.record_at(offset)
                if record is not None:
                    return offset, record
                offset += 1
                continue
            window_end = self._window_start + len(self._window)
            if window_end - offset < RECORD_HEADER_SIZE:
                return None  # the end of the file: no room for a record
            offset = self._file.skip_zeros(window_end - len(RECORD_MAGIC) + 1)

    def _fill(self, offset: int, size: int) -> None:
        """Load the bytes from ``offset`` on into the window; fewer only at the end of the file."""
        start = self._window_start
        if start <= offset and offset + size <= start + len(self._window):
            return
        self._window = self._file.pread(max(size, self._window_size), offset)
        self._window_start = offset


def _find_magic(window: bytes, start: int) -> int:
    """Return where the magic bytes of a record begin, or -1.

    The first byte is sought alone first: among zeros that is eighty times as fast.
    """
    first = window.find(RECORD_MAGIC[:1], start)
    return first if first < 0 else window.find(RECORD_MAGIC, first)


class SegmentReader:
    """One segment of a journal, open for reading. Offsets are those of the file.

    Raises:
        CookieMismatchError: the segment is another bookie's.
        OSError: it cannot be read.
    """

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
        self._file = files.open(self.path, write=False)
        self._records: RecordReader | None = None
        self._least_size = 0
        try:
            head = self._file.pread(SEGMENT_HEADER_SIZE, 0)
            header = decode_header(head, owner, segment_id, self.path)
            self._least_size = header.page_count * PAGE_SIZE
            self._records = RecordReader(self._file, segment_seed_of(header), window_size)
        except CorruptRecordError:
            pass  # without a header no record can be recognized
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def has_header(self) -> bool:
        """False when the header is lost."""
        return self._records is not None

    @property
    def missing_size(self) -> int:
        """The bytes by which the file is shorter than it was made."""
        return max(0, self._least_size - self._file.size())

    def record_at(self, offset: int) -> DecodedRecord | None:
        """Return the whole record at ``offset``, or ``None``; its ``end_offset`` is in the file."""
        return None if self._records is None else self._records.record_at(offset)

    def next_record(self, offset: int) -> DecodedRecord | None:
        """Return the first whole record that starts at ``offset`` or after it, or ``None``."""
        return None if self._records is None else self._records.next_record(offset)

    def find(self, offset: int) -> tuple[int, DecodedRecord] | None:
        """Return the same record with the offset where it starts."""
        return None if self._records is None else self._records.find(offset)

    def head_at(self, offset: int) -> bytes:
        """Return the bytes where a record's header would be; fewer at the end of the file."""
        return self._file.pread(RECORD_HEADER_SIZE, offset)
