"""A file of the journal: its name, its header, and positions in it.

Format version 1 of the header. All integers little-endian. There are two copies, at 0 and at 4096,
so one lost sector does not take both. Headers of older versions have 0 as ``page_count``.

    offset  size  field       type  meaning
    ------  ----  ----------  ----  ----------------------------------------------------------
         0     4  magic       u32   "zbkS"
         4     2  version     u16   1
         6     2  page_count  u16   the file was made at least so many times 4096 bytes long;
                                    0: not known
         8     8  segment_id  u64   1, 2, 3 ...; the name of the file says the same
        16     8  owner       u64   xxh3_64 of the bookie's identity
        24     8  nonce       u64   random for each segment; clients never see it
        32     8  checksum    u64   xxh3_64 of bytes 0 .. 32
      8192        records, one after the other; then zeros, or bytes of an earlier use of the
                  file, which are no records of this segment

Words: a *segment* is one file; a *spare* is an old segment that waits to be used again. Its blocks
are on disk already, so an fsync of bytes in it has no block map to write (measured: 150 µs instead
of 245 µs). The *seed* of a segment makes its records valid only in this file and in this use of it:
bytes of an earlier use, and bytes that a client sends, never count as records.

Guarantees a reader may use: the header is on stable storage before the file has the name of a
segment, and no code makes a segment shorter. So a segment without a header, or shorter than its
header says, is damaged, and its content is unknown.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.
"""

import struct
from typing import Final

import msgspec

from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.system.files import FileSystem

SEGMENT_HEADER_SIZE: Final = 8192
"""The offset of the first record."""

COPY_OFFSETS: Final = (0, 4096)
"""The offsets of the copies of the header."""

PAGE_SIZE: Final = 4096
PAGE_COUNT_MAX: Final = 0xFFFF

_MAGIC: Final = b"zbkS\x01\x00"
_HEADER = struct.Struct("<6sHQQQ")
_CHECKSUM = struct.Struct("<Q")
_COPY_SIZE: Final = _HEADER.size + _CHECKSUM.size
_SEGMENT_SUFFIX: Final = ".journal"
_SPARE_SUFFIX: Final = ".spare"
_HEX_DIGITS: Final = frozenset("0123456789abcdef")

assert _COPY_SIZE == 40


class JournalPosition(msgspec.Struct, frozen=True, order=True):
    """A position between two records of the journal, with the link for the next one."""

    segment_id: int = 0
    offset: int = 0  # bytes from the start of the segment
    sequence: int = 0  # of the record before
    link: int = 0  # checksum of the record before

    def __str__(self) -> str:
        return f"{self.segment_id:x}:{self.offset} (record {self.sequence})"


FIRST_SEGMENT_ID: Final = 1

NO_POSITION: Final = JournalPosition()
"""Before the first record of the first segment."""


def segment_seed(owner: bytes, segment_id: int, nonce: int) -> int:
    """Return the seed of the checksums in a segment."""
    return segment_seed_of(SegmentHeader(segment_id, checksum(owner), nonce))


class SegmentHeader(msgspec.Struct, frozen=True):
    """A copy of a header."""

    segment_id: int
    owner_hash: int
    nonce: int
    page_count: int = 0  # the least length that the file was made with, in pages


def segment_seed_of(header: SegmentHeader) -> int:
    """Return the seed of the checksums in a segment, from its header."""
    return checksum(struct.pack("<QQQ", header.owner_hash, header.segment_id, header.nonce))


def encode_header(owner: bytes, segment_id: int, nonce: int, size: int = 0) -> bytes:
    """Return the bytes before the records: both copies of the header of ``size`` bytes."""
    page_count = min(size // PAGE_SIZE, PAGE_COUNT_MAX)
    fields = _HEADER.pack(_MAGIC, page_count, segment_id, checksum(owner), nonce)
    copy = fields + _CHECKSUM.pack(checksum(fields))
    return b"".join(copy.ljust(SEGMENT_HEADER_SIZE // 2, b"\0") for _ in COPY_OFFSETS)


def decode_header(data: bytes, owner: bytes, segment_id: int, where: str) -> SegmentHeader:
    """Return the header of the segment whose name has this id, from a whole copy.

    Raises:
        CorruptRecordError: no copy is whole, or they are of an earlier use of the file.
        CookieMismatchError: a copy is whole, and another bookie's.
    """
    for offset in COPY_OFFSETS:
        header = _decode_copy(data, offset)
        if header is not None and header.segment_id == segment_id:
            if header.owner_hash != checksum(owner):
                raise CookieMismatchError(f"{where} is in the journal of another bookie")
            return header
    raise CorruptRecordError(where, 0, "no header of this segment")


def decode_copies(data: bytes) -> list[SegmentHeader | None]:
    """Return each copy of the header of any segment; ``None`` for one that is not whole."""
    return [_decode_copy(data, offset) for offset in COPY_OFFSETS]


def _decode_copy(data: bytes, offset: int) -> SegmentHeader | None:
    copy = data[offset : offset + _COPY_SIZE]
    if len(copy) != _COPY_SIZE or not copy.startswith(_MAGIC):
        return None
    (stored,) = _CHECKSUM.unpack_from(copy, _HEADER.size)
    if checksum(copy[: _HEADER.size]) != stored:
        return None
    _, page_count, segment_id, owner_hash, nonce = _HEADER.unpack_from(copy)
    return SegmentHeader(segment_id, owner_hash, nonce, page_count)


def segment_path(directory: str, segment_id: int) -> str:
    """Return the path of a segment."""
    return f"{directory}/{segment_id:016x}{_SEGMENT_SUFFIX}"


def spare_path(directory: str, segment_id: int) -> str:
    """Return the path of a spare."""
    return f"{directory}/{segment_id:016x}{_SPARE_SUFFIX}"


def segment_ids(files: FileSystem, directory: str) -> list[int]:
    """Return the ids of the segments in a directory, ascending."""
    return _ids(files, directory, _SEGMENT_SUFFIX)


def spare_ids(files: FileSystem, directory: str) -> list[int]:
    """Return the ids that the spares in a directory had, ascending."""
    return _ids(files, directory, _SPARE_SUFFIX)


def _ids(files: FileSystem, directory: str, suffix: str) -> list[int]:
    stems = [
        name.removesuffix(suffix) for name in files.list_dir(directory) if name.endswith(suffix)
    ]
    return sorted(int(stem, 16) for stem in stems if len(stem) == 16 and _is_hex(stem))


def _is_hex(text: str) -> bool:
    return _HEX_DIGITS.issuperset(text)
