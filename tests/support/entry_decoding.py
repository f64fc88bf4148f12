"""The decoder of one entry: the slow, obvious twin of ``decode_entries``."""

from zbk.errors import DigestMismatchError
from zbk.protocol.entry.digest import (
    DIGEST_CODE,
    DIGEST_SIZE_BY_CODE,
    DigestFunction,
)
from zbk.protocol.entry.entry import _HEADER, ENTRY_VERSION, HEADER_SIZE, Buffer, Entry
from zbk.protocol.entry.words import DigestType


def decode_entry(
    buffer: Buffer,
    offset: int,
    ledger_id: int,
    entry_id: int,
    digest_type: DigestType,
    digest: DigestFunction,
) -> tuple[Entry, int]:
    """Return the verified entry at ``offset`` and the offset just after it.

    The entry must be ``entry_id`` of ``ledger_id`` with this digest type. Other bytes, also a cut
    or a flipped bit, are a mismatch, and the caller should ask another replica.

    Raises:
        DigestMismatchError: the bytes are not that whole entry.
    """
    view = memoryview(buffer)
    header_end = offset + HEADER_SIZE
    if len(view) < header_end:
        raise DigestMismatchError(ledger_id, entry_id)
    payload_size, flags, stored_ledger, stored_entry, lac, length = _HEADER.unpack_from(
        view, offset
    )
    code = DIGEST_CODE[digest_type]
    payload_end = header_end + payload_size
    end = payload_end + DIGEST_SIZE_BY_CODE[code]
    if (
        flags != ENTRY_VERSION | code << 8
        or stored_ledger != ledger_id
        or stored_entry != entry_id
        or end > len(view)
        or digest(view[offset:payload_end]) != view[payload_end:end]
    ):
        raise DigestMismatchError(ledger_id, entry_id)
    return Entry(ledger_id, entry_id, lac, length, bytes(view[header_end:payload_end])), end
