"""An entry log file: a header, blocks of entries, and, when sealed, a map of its ledgers.

Format version 1. All integers little-endian. Unit of every size: bytes.

Header of the file:

    offset  size  field     type  meaning
    ------  ----  --------  ----  -------------------------------------------------------------
         0     4  magic     u32   "zbkL"
         4     2  version   u16   1
         6     2  reserved  u16   0
         8     8  log_id    u64   1 and up; the name of the file says the same
        16     8  owner     u64   xxh3_64 of the bookie's identity
        24     8  checksum  u64   xxh3_64 of bytes 0 .. 24

Block, one after the other from offset 32 on:

         0     4  magic           u32   "zbkB"
         4     2  version         u16   1
         6     2  reserved        u16   0
         8     8  ledger_id       i64   >= 0
        16     8  first_entry_id  i64   >= 0; the other ids are in the entries
        24     4  count           u32   entries in the block
        28     4  body_size       u32   n
        32     8  body_checksum   u64   xxh3_64 of the body, as its writer made it
        40     8  checksum        u64   xxh3_64 of bytes 0 .. 40, seeded with the log's seed
        48     n  body            u8[]  the entries back to back

Map, after the last block, and footer, the last bytes of a sealed file:

         0  16 c  pairs         i64, u64  ledger id and bytes of its entries in this log, ascending
      16 c     4  magic         u32       "zbkM"
             + 4  version       u16       1
             + 6  reserved      u16       0
             + 8  count         u32       c
             +12  reserved      u32       0
             +16  map_offset    u64       where the pairs start
             +24  map_checksum  u64       xxh3_64 of the pairs
             +32  checksum      u64       xxh3_64 of the 32 bytes before, seeded with the log's seed

Guarantees a reader may use: a block never spans two files; entries were synced before the index
that points at them.

Recovery rule: no restart appends to an old log; its unsynced tail may be torn or garbage (the
journal has those entries). A log without a whole map is scanned; the scan reports damage, and
continues at the next whole block header.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Source: BookKeeper's ``DefaultEntryLogger``. Its location points after the record's size; zbk's
points at the entry's first byte, and the entry has its size.
"""

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

from zbk.errors import CookieMismatchError, CorruptRecordError, ShortRecordError
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.entry_batch import BODY_SIZE_MAX, EntryBatch
from zbk.system.files import Buffer

LOG_HEADER_SIZE: Final = 32
BLOCK_HEADER_SIZE: Final = 48
FOOTER_SIZE: Final = 40
BLOCK_MAGIC: Final = b"zbkB\x01\x00"
"""Magic and version: the bytes that a search for blocks finds."""

_LOG_MAGIC: Final = b"zbkL\x01\x00"
_MAP_MAGIC: Final = b"zbkM\x01\x00"
_LOG_HEADER = struct.Struct("<6sHQQ")
_BLOCK_HEADER = struct.Struct("<6sHqqIIQ")
_FOOTER = struct.Struct("<6sHIIQQ")
_PAIR = struct.Struct("<qQ")
_CHECKSUM = struct.Struct("<Q")

assert _LOG_HEADER.size + _CHECKSUM.size == LOG_HEADER_SIZE
assert _BLOCK_HEADER.size + _CHECKSUM.size == BLOCK_HEADER_SIZE
assert _FOOTER.size + _CHECKSUM.size == FOOTER_SIZE


class BlockHeader(msgspec.Struct, frozen=True):
    """The header of a block."""

    ledger_id: int
    first_entry_id: int
    count: int
    body_size: int
    body_checksum: int


def log_seed(owner: bytes, log_id: int) -> int:
    """Return the seed of the checksums in a log of this bookie."""
    return log_seed_of(checksum(owner), log_id)


def log_seed_of(owner_hash: int, log_id: int) -> int:
    """Return the seed of the checksums in a log, from the fields of its header."""
    return checksum(struct.pack("<QQ", owner_hash, log_id))


def is_stub(log_size: int) -> bool:
    """Return whether a log is too short for its header, as after a loss of power when it was made.

    >>> is_stub(LOG_HEADER_SIZE)
    False
    """
    return log_size < LOG_HEADER_SIZE


def encode_log_header(owner: bytes, log_id: int) -> bytes:
    """Return a file's header."""
    return _with_checksum(_LOG_HEADER.pack(_LOG_MAGIC, 0, log_id, checksum(owner)), 0)


def check_log_header(buffer: Buffer, owner: bytes, log_id: int, where: str) -> None:
    """Check the header of the log whose name has this id.

    Raises:
        CorruptRecordError: it is damaged or of another log; ShortRecordError when cut off.
        CookieMismatchError: it is whole, and another bookie's.
    """
    own_id, owner_hash = decode_log_header(buffer, where)
    if own_id != log_id:
        raise CorruptRecordError(where, 0, "not the header of this log")
    if owner_hash != checksum(owner):
        raise CookieMismatchError(f"{where} is an entry log of another bookie")


def decode_log_header(buffer: Buffer, where: str) -> tuple[int, int]:
    """Return the log id and the owner's hash in the header of any log.

    Raises:
        CorruptRecordError: it is damaged, or no header; ShortRecordError when cut off.
    """
    if len(buffer) < LOG_HEADER_SIZE:
        raise ShortRecordError(where, 0, "ends inside the log's header")
    if not _is_checked(buffer, 0, LOG_HEADER_SIZE, 0):
        raise CorruptRecordError(where, 0, "the log's header is damaged")
    magic, _, log_id, owner_hash = _LOG_HEADER.unpack_from(buffer, 0)
    if magic != _LOG_MAGIC:
        raise CorruptRecordError(where, 0, "not the header of this log")
    return log_id, owner_hash


def encode_block_header(batch: EntryBatch, seed: int) -> bytes:
    """Return the block header of a batch."""
    fields = _BLOCK_HEADER.pack(
        BLOCK_MAGIC,
        0,
        batch.ledger_id,
        batch.entry_ids[0],
        len(batch.sizes),
        len(batch.body),
        batch.checksum,
    )
    return fields + _CHECKSUM.pack(checksum(fields, seed))


def decode_block_header(buffer: Buffer, offset: int, seed: int, where: str) -> BlockHeader:
    """Return the block header at ``offset``.

    Raises:
        ShortRecordError: the buffer ends inside of it.
        CorruptRecordError: there is none, or it is damaged.
    """
    if len(buffer) - offset < BLOCK_HEADER_SIZE:
        raise ShortRecordError(where, offset, "ends inside a block's header")
    magic, _, ledger_id, first_entry_id, count, size, body_checksum = _BLOCK_HEADER.unpack_from(
        buffer, offset
    )
    if magic != BLOCK_MAGIC or not _is_checked(buffer, offset, BLOCK_HEADER_SIZE, seed):
        raise CorruptRecordError(where, offset, "not the header of a block")
    if size > BODY_SIZE_MAX:
        raise CorruptRecordError(where, offset, f"an impossible block of {size} bytes")
    return BlockHeader(ledger_id, first_entry_id, count, size, body_checksum)


def encode_map(size_by_ledger: Mapping[int, int], map_offset: int, seed: int) -> bytes:
    """Return the map and the footer that seal a file at ``map_offset``."""
    pairs = b"".join(_PAIR.pack(*pair) for pair in sorted(size_by_ledger.items()))
    fields = _FOOTER.pack(_MAP_MAGIC, 0, len(size_by_ledger), 0, map_offset, checksum(pairs))
    return pairs + _with_checksum(fields, seed)


def decode_footer(buffer: Buffer, log_size: int, seed: int, where: str) -> tuple[int, int]:
    """Return offset and size of the map, from the last bytes of a file of ``log_size`` bytes.

    Raises:
        CorruptRecordError: they are no footer of this file.
    """
    offset = log_size - FOOTER_SIZE
    if len(buffer) != FOOTER_SIZE or not _is_checked(buffer, 0, FOOTER_SIZE, seed):
        raise CorruptRecordError(where, offset, "no footer")
    magic, _, count, _, map_offset, _ = _FOOTER.unpack_from(buffer, 0)
    if magic != _MAP_MAGIC or map_offset + count * _PAIR.size != offset:
        raise CorruptRecordError(where, offset, "not the footer of this log")
    return map_offset, count * _PAIR.size


def decode_map(pairs: bytes, footer: bytes, where: str) -> dict[int, int]:
    """Return the bytes by ledger in the pairs before a footer.

    Raises:
        CorruptRecordError: the pairs are damaged.
    """
    if checksum(pairs) != _FOOTER.unpack_from(footer, 0)[5]:
        raise CorruptRecordError(where, 0, "the map of ledgers is damaged")
    return dict(_PAIR.iter_unpack(pairs))


def _with_checksum(fields: bytes, seed: int) -> bytes:
    return fields + _CHECKSUM.pack(checksum(fields, seed))


def _is_checked(buffer: Buffer, offset: int, size: int, seed: int) -> bool:
    fields_end = offset + size - _CHECKSUM.size
    (stored,) = _CHECKSUM.unpack_from(buffer, fields_end)
    return bool(checksum(bytes(memoryview(buffer)[offset:fields_end]), seed) == stored)
