"""One record of the journal: a batch of entries, or a change of a ledger's state.

Format version 1. All integers little-endian. Unit of every size: bytes.

    offset  size  field            type  meaning
    ------  ----  ---------------  ----  ------------------------------------------------------
         0     4  magic            u32   "zbkR"
         4     2  version          u16   1
         6     1  kind             u8    1 entries, 2 ledger key, 3 fence, 4 explicit LAC, 5 synced,
                                         6 synced entries, 7 synced entries of a stripe
         7     1  flags            u8    bit 0: entry ids are listed (they are not in a row)
         8     8  sequence         u64   1, 2, 3 ... over the whole life of the journal
        16     8  synced_sequence  u64   records up to this sequence were on stable storage before
                                         this record was written
        24     8  previous         u64   ``checksum`` of the record before; 0 before the first
        32     8  ledger_id        i64   >= 0
        40     8  value            i64   entries: first entry id; explicit LAC: the LAC;
                                         synced entries, both kinds: the first; else 0
        48     4  count            u32   entries: how many; else 0
        52     4  meta_size        u32   m
        56     4  body_size        u32   n
        60     4  reserved         u32   0
        64     8  body_checksum    u64   xxh3_64 of the body
        72     8  checksum         u64   xxh3_64 of bytes 0 .. 72 and the meta part, seeded with
                                         the segment's seed
        80     m  meta             u8[]  entries: ids (i64 each, if listed), sizes (u32 each);
                                         ledger key: the key (16) and the type (u8); synced:
                                         zeros, any number; synced entries: the last (i64); of
                                         a stripe: the last (i64), E, Qw, slot (u8 each); else
                                         empty
    80 + m     n  body             u8[]  the entries back to back; other kinds: empty

Guarantees a reader may use:
  * a record never spans two segments;
  * a record is whole or invalid: the two checksums cover every byte, so a body that ends inside
    preallocated zeros never counts as entries;
  * the seed makes bytes of another segment, another bookie, or an earlier use of the file invalid
    at any place; a client that writes entries cannot forge a record;
  * ``previous`` and ``sequence`` chain the records: a missing record is always detected.

The body's checksum is that of its writer: the journal does not hash entries again.

Recovery rule: see ``zbk.storage.journal.replay``.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.
"""

import struct
from array import array
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.errors import CorruptRecordError, MalformedMessageError, ShortRecordError
from zbk.protocol.entry.digest import LEDGER_KEY_SIZE, checksum
from zbk.protocol.entry.entry_batch import (
    BODY_SIZE_MAX,
    COUNT_MAX,
    EntryBatch,
    sizes_from_wire,
    sizes_to_wire,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.disk.byte_order import ids_from_disk, to_disk
from zbk.storage.index.ledger_info import CODE_OF_LEDGER_TYPE, LEDGER_TYPE_OF_CODE
from zbk.system.files import Buffer

RECORD_MAGIC: Final = b"zbkR\x01\x00"
"""Magic and version, in the order of the file: the bytes that a search for records finds."""

RECORD_HEADER_SIZE: Final = 80
META_SIZE_MAX: Final = COUNT_MAX * 12

_HEADER = struct.Struct("<6sBBQQQqqIIIIQ")  # all fields up to the checksum
_CHECKSUM = struct.Struct("<Q")
_BODY_SIZE = struct.Struct("<I")
_BODY_SIZE_OFFSET: Final = 56
_LEDGER_KEY = struct.Struct(f"<{LEDGER_KEY_SIZE}sB")
_ENTRY_ID = struct.Struct("<q")
_STRIPE = struct.Struct("<BBB")

assert _HEADER.size + _CHECKSUM.size == RECORD_HEADER_SIZE

_IDS_LISTED = 1
_EMPTY_CHECKSUM = checksum(b"")


class _Kind(IntEnum):
    ENTRIES = 1
    LEDGER_KEY = 2
    FENCE = 3
    EXPLICIT_LAC = 4
    SYNCED = 5
    SYNCED_ENTRIES = 6
    SYNCED_STRIPE = 7


class EntriesRecord(msgspec.Struct, frozen=True):
    """A batch of entries."""

    batch: EntryBatch

    @property
    def size(self) -> int:
        """Bytes that the record takes in the journal."""
        batch = self.batch
        per_entry = 4 if isinstance(batch.entry_ids, range) else 12
        return RECORD_HEADER_SIZE + per_entry * len(batch.sizes) + len(batch.body)


class LedgerKeyRecord(msgspec.Struct, frozen=True):
    """A ledger's key and type: the first record of the ledger."""

    ledger_id: int
    ledger_key: bytes
    ledger_type: LedgerType

    @property
    def size(self) -> int:
        """Bytes that the record takes in the journal."""
        return RECORD_HEADER_SIZE + _LEDGER_KEY.size


class FenceRecord(msgspec.Struct, frozen=True):
    """The ledger is fenced, forever."""

    ledger_id: int

    @property
    def size(self) -> int:
        """Bytes that the record takes in the journal."""
        return RECORD_HEADER_SIZE


class ExplicitLacRecord(msgspec.Struct, frozen=True):
    """The writer reported its LAC without an entry."""

    ledger_id: int
    lac: int

    @property
    def size(self) -> int:
        """Bytes that the record takes in the journal."""
        return RECORD_HEADER_SIZE


class SyncedRecord(msgspec.Struct, frozen=True):
    """Only the evidence that the records before it were synced. Made by the journal."""

    padding_size: int = 0  # bytes of zeros, which place the next record

    @property
    def size(self) -> int:
        """Bytes that the record takes in the journal."""
        return RECORD_HEADER_SIZE + self.padding_size


class SyncedEntriesRecord(msgspec.Struct, frozen=True):
    """Entries that are not in the journal are on stable storage, in entry logs, since before.

    With a stripe, all that is due there from the first to the last.
    """

    ledger_id: int
    first_entry_id: int
    last_entry_id: int
    stripe: Stripe | None = None

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.entry_ids)

    @property
    def entry_ids(self) -> Sequence[int]:
        """The ids, ascending."""
        stripe, first, end = self.stripe, self.first_entry_id, self.last_entry_id + 1
        if stripe is None:
            return range(first, end)
        return list(map(stripe.entry_id, range(stripe.place(first), stripe.place(end))))

    @property
    def size(self) -> int:
        """Bytes that the record takes in the journal."""
        return RECORD_HEADER_SIZE + _ENTRY_ID.size + (_STRIPE.size if self.stripe else 0)


JournalRecord: TypeAlias = (
    EntriesRecord
    | LedgerKeyRecord
    | FenceRecord
    | ExplicitLacRecord
    | SyncedRecord
    | SyncedEntriesRecord
)


class DecodedRecord(msgspec.Struct, frozen=True):
    """One record read back, with verified checksums; the reader checks the chain."""

    record: JournalRecord
    sequence: int
    synced_sequence: int
    previous: int
    checksum: int
    end_offset: int  # after the record, in the buffer it was decoded from


def encode_record(
    record: JournalRecord, *, sequence: int, synced_sequence: int, previous: int, seed: int
) -> tuple[bytes, bytes, int]:
    """Return the record's header and meta part, its body (not copied), and its checksum."""
    flags = value = count = ledger_id = 0
    meta = body = b""
    body_checksum = _EMPTY_CHECKSUM
    match record:
        case EntriesRecord(batch):
            kind = _Kind.ENTRIES
            ledger_id, value, count = batch.ledger_id, batch.entry_ids[0], len(batch.sizes)
            meta, body, body_checksum = sizes_to_wire(batch.sizes), batch.body, batch.checksum
            if not isinstance(batch.entry_ids, range):
                flags = _IDS_LISTED
                meta = bytes(to_disk(array("q", batch.entry_ids))) + meta
        case LedgerKeyRecord(ledger_id, ledger_key, ledger_type):
            kind = _Kind.LEDGER_KEY
            meta = _LEDGER_KEY.pack(ledger_key, CODE_OF_LEDGER_TYPE[ledger_type])
        case FenceRecord(ledger_id):
            kind = _Kind.FENCE
        case ExplicitLacRecord(ledger_id, value):
            kind = _Kind.EXPLICIT_LAC
        case SyncedRecord(padding_size):
            kind = _Kind.SYNCED
            meta = bytes(padding_size)
        case SyncedEntriesRecord(ledger_id, value, last_entry_id, stripe):
            kind = _Kind.SYNCED_ENTRIES
            meta = _ENTRY_ID.pack(last_entry_id)
            if stripe is not None:
                kind = _Kind.SYNCED_STRIPE
                meta += _STRIPE.pack(*msgspec.structs.astuple(stripe))
        case _:
            assert_never(record)
    header = _HEADER.pack(
        RECORD_MAGIC,
        kind,
        flags,
        sequence,
        synced_sequence,
        previous,
        ledger_id,
        value,
        count,
        len(meta),
        len(body),
        0,
        body_checksum,
    )
    own_checksum = checksum(header + meta, seed)
    return b"".join((header, _CHECKSUM.pack(own_checksum), meta)), body, own_checksum


def decode_head_size(buffer: Buffer, offset: int, where: str = "journal") -> int:
    """Return the bytes of header and meta part that the record at ``offset`` claims, unverified.

    Raises:
        ShortRecordError: fewer than ``RECORD_HEADER_SIZE`` bytes are left.
        CorruptRecordError: this is not the start of a record.
    """
    if len(buffer) - offset < RECORD_HEADER_SIZE:
        raise ShortRecordError(where, offset, "ends inside a record's header")
    fields = _HEADER.unpack_from(buffer, offset)
    if fields[0] != RECORD_MAGIC or fields[9] > META_SIZE_MAX or fields[10] > BODY_SIZE_MAX:
        raise CorruptRecordError(where, offset, "not the start of a record")
    return RECORD_HEADER_SIZE + int(fields[9])


def decode_size(buffer: bytes | bytearray, offset: int, seed: int, where: str = "journal") -> int:
    """Return the size of the record at ``offset``, whose header and meta part are verified.

    Raises:
        ShortRecordError: the buffer ends inside them.
        CorruptRecordError: they are damaged, or of another segment.
    """
    head_size = decode_head_size(buffer, offset, where)
    if offset + head_size > len(buffer):
        raise ShortRecordError(where, offset, "ends inside a record's meta part")
    fields_end = offset + _HEADER.size
    (stored_checksum,) = _CHECKSUM.unpack_from(buffer, fields_end)
    head = buffer[offset:fields_end] + buffer[offset + RECORD_HEADER_SIZE : offset + head_size]
    if checksum(head, seed) != stored_checksum:
        raise CorruptRecordError(where, offset, "the record's checksum does not match")
    (body_size,) = _BODY_SIZE.unpack_from(buffer, offset + _BODY_SIZE_OFFSET)
    return head_size + int(body_size)


def decode_record(
    buffer: bytes | bytearray,
    offset: int,
    seed: int,
    where: str = "journal",
    *,
    size: int = 0,
    origin: int = 0,
) -> DecodedRecord:
    """Return the record at ``offset``, its bytes copied out of the buffer.

    ``size`` is the result of ``decode_size`` for the same bytes, if known. The buffer begins at
    ``origin``, to which the end offset is relative.

    Raises:
        ShortRecordError: the buffer ends inside the record.
        CorruptRecordError: a checksum or a field is wrong.
    """
    end = offset + (size or decode_size(buffer, offset, seed, where))
    if end > len(buffer):
        raise ShortRecordError(where, offset, "ends inside a record's body")
    (
        _magic,
        kind,
        flags,
        sequence,
        synced_sequence,
        previous,
        ledger_id,
        value,
        count,
        _meta_size,
        body_size,
        _reserved,
        body_checksum,
    ) = _HEADER.unpack_from(buffer, offset)
    meta = bytes(buffer[offset + RECORD_HEADER_SIZE : end - body_size])
    body = bytes(buffer[end - body_size : end])
    if checksum(body) != body_checksum:
        raise CorruptRecordError(where, offset, "the body's checksum does not match")
    try:
        record = _record(kind, flags, ledger_id, value, count, meta, body, body_checksum)
    except (ValueError, KeyError, struct.error, MalformedMessageError) as error:
        raise CorruptRecordError(where, offset, f"impossible fields: {error}") from error
    (own_checksum,) = _CHECKSUM.unpack_from(buffer, offset + _HEADER.size)
    return DecodedRecord(record, sequence, synced_sequence, previous, own_checksum, origin + end)


def _record(
    kind: int,
    flags: int,
    ledger_id: int,
    value: int,
    count: int,
    meta: bytes,
    body: bytes,
    body_checksum: int,
) -> JournalRecord:
    match kind:
        case _Kind.ENTRIES:
            sizes_start = 8 * count if flags & _IDS_LISTED else 0
            ids: Sequence[int] = (
                ids_from_disk(meta[:sizes_start])
                if flags & _IDS_LISTED
                else range(value, value + count)
            )
            sizes = sizes_from_wire(meta[sizes_start:])
            if len(sizes) != count:
                raise ValueError(f"{len(sizes)} sizes for {count} entries")
            return EntriesRecord(EntryBatch(ledger_id, ids, sizes, body, body_checksum))
        case _Kind.LEDGER_KEY:
            ledger_key, code = _LEDGER_KEY.unpack(meta)
            return LedgerKeyRecord(ledger_id, ledger_key, LEDGER_TYPE_OF_CODE[code])
        case _Kind.FENCE:
            return FenceRecord(ledger_id)
        case _Kind.EXPLICIT_LAC:
            return ExplicitLacRecord(ledger_id, value)
        case _Kind.SYNCED:
            return SyncedRecord(len(meta))
        case _Kind.SYNCED_ENTRIES | _Kind.SYNCED_STRIPE:
            stripe = None
            if kind == _Kind.SYNCED_STRIPE:
                stripe = Stripe(*_STRIPE.unpack(meta[_ENTRY_ID.size :]))
                meta = meta[: _ENTRY_ID.size]
            (last_entry_id,) = _ENTRY_ID.unpack(meta)
            if not 0 <= value <= last_entry_id:
                raise ValueError(f"entries {value} to {last_entry_id}")
            return SyncedEntriesRecord(ledger_id, value, last_entry_id, stripe)
        case _:
            raise ValueError(f"unknown kind {kind}")
