"""A file of the journal: its name, its header, and places in it.

Format version 1 of the header. All integers little-endian.

    offset  size  field            type  meaning
    ------  ----  ---------------  ----  ------------------------------------------------------
         0     4  magic            u32   "zbkS"
         4     2  version          u16   1
         6     2  reserved         u16   0
         8     8  segment_id       u64   1, 2, 3 ...; the name of the file says the same
        16     8  owner            u64   xxh3_64 of the bookie's identity
        24     8  first_sequence   u64   sequence of the first record
        32     8  synced_sequence  u64   as in a record
        40     8  previous         u64   checksum of the last record of the segments before
        48     8  reserved         u64   0
        56     8  checksum         u64   xxh3_64 of bytes 0 .. 56, seeded with the segment's seed
        64        records, one behind the other; behind the last one zeros, or bytes of the life
                  that a re-used file had before: no record of this segment

Words: a *segment* is one file; a *spare* is an old segment that waits to be used again: its blocks
are on disk already, so that an fsync of bytes in it has no block map to write (measured: 150 µs
instead of 245 µs). The *seed* of a segment makes its records valid in this file of this bookie and
nowhere else. It follows from the name, so that records can be told from damage even where the
header is damaged.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.
"""

import struct
from typing import Final

import msgspec

from zbk.errors import CookieMismatchError, CorruptRecordError, ShortRecordError
from zbk.protocol.digest import checksum
from zbk.system.files import Buffer, FileSystem

SEGMENT_HEADER_SIZE: Final = 64

_MAGIC: Final = b"zbkS\x01\x00"
_HEADER = struct.Struct("<6sHQQQQQQ")
_CHECKSUM = struct.Struct("<Q")
_SEGMENT_SUFFIX: Final = ".journal"
_SPARE_SUFFIX: Final = ".spare"

assert _HEADER.size + _CHECKSUM.size == SEGMENT_HEADER_SIZE


class JournalPosition(msgspec.Struct, frozen=True, order=True):
    """A place between two records of the journal, and what chains the next one to those before."""

    segment_id: int = 0
    offset: int = 0  # bytes from the start of the segment
    sequence: int = 0  # of the record before
    link: int = 0  # checksum of the record before

    def __str__(self) -> str:
        return f"{self.segment_id:x}:{self.offset} (record {self.sequence})"


NO_POSITION: Final = JournalPosition()
"""Before the first record of the first segment."""


class SegmentHeader(msgspec.Struct, frozen=True):
    """What a segment says of itself."""

    segment_id: int
    first_sequence: int
    synced_sequence: int
    previous: int


def segment_seed(owner: bytes, segment_id: int) -> int:
    """Return the seed of the checksums in a segment of this bookie."""
    return _seed(checksum(owner), segment_id)


def encode_header(header: SegmentHeader, owner: bytes) -> bytes:
    """Return the header's bytes."""
    fields = _HEADER.pack(
        _MAGIC,
        0,
        header.segment_id,
        checksum(owner),
        header.first_sequence,
        header.synced_sequence,
        header.previous,
        0,
    )
    seed = segment_seed(owner, header.segment_id)
    return fields + _CHECKSUM.pack(checksum(fields, seed))


def decode_header(buffer: Buffer, segment_id: int, owner: bytes, where: str) -> SegmentHeader:
    """Return the header of the segment that has this id by its name.

    Raises:
        ShortRecordError: the buffer ends inside of the header.
        CorruptRecordError: it is damaged, or of another life of a re-used file.
        CookieMismatchError: it is whole, and another bookie's.
    """
    if len(buffer) < SEGMENT_HEADER_SIZE:
        raise ShortRecordError(where, 0, "ends inside the segment's header")
    fields = bytes(buffer[: _HEADER.size])
    (stored,) = _CHECKSUM.unpack_from(buffer, _HEADER.size)
    magic, _, own_id, owner_hash, first_sequence, synced_sequence, previous, _ = _HEADER.unpack(
        fields
    )
    if (
        magic != _MAGIC
        or own_id != segment_id
        or checksum(fields, _seed(owner_hash, segment_id)) != stored
    ):
        raise CorruptRecordError(where, 0, "not the header of this segment")
    if owner_hash != checksum(owner):
        raise CookieMismatchError(f"{where} is in the journal of another bookie")
    return SegmentHeader(own_id, first_sequence, synced_sequence, previous)


def segment_path(directory: str, segment_id: int) -> str:
    """Return the path of a segment."""
    return f"{directory}/{segment_id:016x}{_SEGMENT_SUFFIX}"


def spare_path(directory: str, segment_id: int) -> str:
    """Return the path of what was a segment and waits to be used again."""
    return f"{directory}/{segment_id:016x}{_SPARE_SUFFIX}"


def segment_ids(files: FileSystem, directory: str) -> list[int]:
    """Return the ids of the segments in a directory, ascending."""
    return _ids(files, directory, _SEGMENT_SUFFIX)


def spare_ids(files: FileSystem, directory: str) -> list[int]:
    """Return the ids that the spares in a directory had, ascending."""
    return _ids(files, directory, _SPARE_SUFFIX)


def _seed(owner_hash: int, segment_id: int) -> int:
    return checksum(struct.pack("<QQ", owner_hash, segment_id))


def _ids(files: FileSystem, directory: str, suffix: str) -> list[int]:
    stems = [
        name.removesuffix(suffix) for name in files.list_dir(directory) if name.endswith(suffix)
    ]
    return sorted(int(stem, 16) for stem in stems if len(stem) == 16 and _is_hex(stem))


def _is_hex(text: str) -> bool:
    return all(letter in "0123456789abcdef" for letter in text)
