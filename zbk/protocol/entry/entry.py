"""The bytes of one entry. The writer encodes them once; wire, files and readers use the same bytes.

Format version 1. All integers little-endian. Unit of every size: bytes.

    offset  size  field         type  meaning
    ------  ----  ------------  ----  ---------------------------------------------------------
         0     4  payload_size  u32   n
         4     1  version       u8    1
         5     1  digest_code   u8    0 none, 1 XXH3 (8 bytes), 2 MAC (16 bytes)
         6     2  reserved      u16   0
         8     8  ledger_id     i64   >= 0
        16     8  entry_id      i64   >= 0
        24     8  lac           i64   the writer's LAC when it encoded this; -1 is none
        32     8  length        i64   bytes of payload in the ledger, including this entry
        40     n  payload       u8[]  may be empty
    40 + n     d  digest        u8[]  of bytes 0 .. 40 + n; d by digest_code

Guarantees for readers: ``lac < entry_id``; the digest covers ids as well as payload, so an entry in
the wrong place is detected; the first six bytes give the size of the entry.

A change of this table needs a new version, new golden bytes and a reader for the old version.

Source: BookKeeper's entry packet (``DigestManager``): the same fields, plus payload size and
digest type, so that an entry can be read without its ledger's metadata.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from operator import add
from struct import Struct
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.entry.digest import (
    DIGEST_CODE,
    DIGEST_SIZE_BY_CODE,
    DigestFunction,
    digest_function,
    digest_of_parts,
)
from zbk.protocol.entry.words import DigestType

ENTRY_VERSION: Final = 1
HEADER_SIZE: Final = 40

_CHUNK_COUNT: Final = 128

_LARGE_SIZE: Final = 4096
"""Bytes of a payload, in the mean, from which on one more copy of it costs more than a call."""

_HEADER = Struct("<IIqqqq")  # payload_size, version | digest_code << 8, ids, lac, length
_START = Struct("<II")
_START_AND_LEDGER = Struct("<IIq")
_PREFIX = Struct("<IBBHqq")  # the same start, field by field

assert _HEADER.size == HEADER_SIZE

Buffer = bytes | bytearray | memoryview


class Entry(msgspec.Struct, frozen=True):
    """One verified entry. It owns ``payload``, which keeps no other bytes in memory."""

    ledger_id: int
    entry_id: int
    lac: int
    length: int
    payload: bytes


def entry_size(payload_size: int, digest_type: DigestType) -> int:
    """Return the size of an entry with a payload of this size.

    >>> entry_size(100, DigestType.XXH3)
    148
    """
    return HEADER_SIZE + payload_size + DIGEST_SIZE_BY_CODE[DIGEST_CODE[digest_type]]


def entry_overhead_size(buffer: Buffer, offset: int = 0) -> int:
    """Return the bytes of header and digest of the whole entry at ``offset``."""
    _payload_size, flags = _START.unpack_from(buffer, offset)
    return HEADER_SIZE + DIGEST_SIZE_BY_CODE[flags >> 8]


def stored_lac(buffer: Buffer, offset: int = 0) -> int:
    """Return the LAC in the header of the whole entry at ``offset``. The digest is not checked."""
    lac: int = _HEADER.unpack_from(buffer, offset)[4]
    return lac


def stored_length(buffer: Buffer, offset: int = 0) -> int:
    """Return the length in the header of the entry at ``offset``. The digest is not checked."""
    length: int = _HEADER.unpack_from(buffer, offset)[5]
    return length


def has_plain_digest(entry: bytes) -> bool | None:
    """Return whether a whole entry has the digest of its bytes; ``None`` if the check needs a key.

    >>> from zbk.protocol.entry.digest import digest_function
    >>> plain = digest_function(DigestType.XXH3, b"", 7)
    >>> entry = encode_entries(7, [0], -1, 0, [b"x"], DigestType.XXH3, plain)[0]
    >>> has_plain_digest(entry), has_plain_digest(b"z" + entry[1:])
    (True, False)
    """
    _payload_size, flags = _START.unpack_from(entry)
    if flags != ENTRY_VERSION | DIGEST_CODE[DigestType.XXH3] << 8:
        return None
    digest_size = DIGEST_SIZE_BY_CODE[DIGEST_CODE[DigestType.XXH3]]
    plain = digest_function(DigestType.XXH3, b"", 0)  # needs no key
    return plain(entry[:-digest_size]) == entry[-digest_size:]


def encode_entries(
    ledger_id: int,
    entry_ids: Sequence[int],
    lac: int,
    length: int,
    payloads: Sequence[bytes],
    digest_type: DigestType,
    digest: DigestFunction,
) -> tuple[bytes, list[int]]:
    """Return the body of a batch, which is the entries back to back, and the size of each entry.

    ``length`` is the ledger's length before the first entry. This is the writer's hottest loop.
    Every step runs in C over a chunk of entries that stays in the processor's cache. Large payloads
    are copied into the body and nowhere else, for a call of Python each.
    """
    code = DIGEST_CODE[digest_type]
    flags = ENTRY_VERSION | code << 8
    overhead_size = HEADER_SIZE + DIGEST_SIZE_BY_CODE[code]
    if len(payloads) == 1:
        (payload,) = payloads
        size = len(payload)
        header = _HEADER.pack(size, flags, ledger_id, entry_ids[0], lac, length + size)
        if size < _LARGE_SIZE:
            body = header + payload
            return body + digest(body), [size + overhead_size]
        parts = (header, payload, digest_of_parts(digest, header, payload))
        return b"".join(parts), [size + overhead_size]
    chunks: list[bytes] = []
    entry_sizes: list[int] = []
    for start in range(0, len(payloads), _CHUNK_COUNT):
        chunk = payloads[start : start + _CHUNK_COUNT]
        ids = entry_ids[start : start + _CHUNK_COUNT]
        count = len(chunk)
        sizes = list(map(len, chunk))
        size = sizes[0]
        lengths: Iterable[int]
        if size < _LARGE_SIZE and sizes.count(size) == count:
            lengths = (
                range(length + size, length + size * count + 1, size) if size else repeat(length)
            )
            length += size * count
            head = _START_AND_LEDGER.pack(size, flags, ledger_id)
            bodies = list(map(_pack_for(size), repeat(head), ids, repeat(lac), lengths, chunk))
            entry_sizes += [size + overhead_size] * count
        else:
            lengths = list(accumulate(sizes, initial=length))[1:]
            is_large = lengths[-1] - length >= _LARGE_SIZE * count
            length = lengths[-1]
            fields = (sizes, repeat(flags), repeat(ledger_id), ids, repeat(lac), lengths)
            headers: Iterable[bytes] = map(_HEADER.pack, *fields)
            entry_sizes += [size + overhead_size for size in sizes]
            if is_large:
                headers = list(headers)
                pieces = [b""] * (3 * count)
                pieces[::3] = headers
                pieces[1::3] = chunk
                pieces[2::3] = map(digest_of_parts, repeat(digest), headers, chunk)
                chunks.append(b"".join(pieces))
                continue
            bodies = list(map(add, headers, chunk))
        pieces = [b""] * (2 * count)
        pieces[::2] = bodies
        pieces[1::2] = map(digest, bodies)
        chunks.append(b"".join(pieces))
    return chunks[0] if len(chunks) == 1 else b"".join(chunks), entry_sizes


@lru_cache(maxsize=64)
def _pack_for(payload_size: int) -> Callable[..., bytes]:
    """Return the function that packs header and payload at once, for payloads of one size."""
    return Struct(f"<{_START_AND_LEDGER.size}sqqq{payload_size}s").pack


def stored_size(buffer: Buffer, offset: int) -> int:
    """Return the size of the entry at ``offset``, from its first six bytes.

    Raises:
        ShortRecordError: fewer than ``HEADER_SIZE`` bytes are left.
        CorruptRecordError: this is not the start of an entry.
    """
    return read_prefix(buffer, offset)[2]


def read_prefix(buffer: Buffer, offset: int, where: str = "entry") -> tuple[int, int, int]:
    """Return ``(ledger_id, entry_id, size)`` of the entry at ``offset``; no digest is checked.

    Raises:
        ShortRecordError: fewer than ``HEADER_SIZE`` bytes are left.
        CorruptRecordError: this is not the start of an entry.
    """
    if len(buffer) - offset < HEADER_SIZE:
        raise ShortRecordError(where, offset, "ends inside an entry's header")
    payload_size, version, code, reserved, ledger_id, entry_id = _PREFIX.unpack_from(buffer, offset)
    if version != ENTRY_VERSION or code >= len(DIGEST_SIZE_BY_CODE) or reserved:
        raise CorruptRecordError(where, offset, "not the start of an entry")
    return ledger_id, entry_id, HEADER_SIZE + payload_size + DIGEST_SIZE_BY_CODE[code]
