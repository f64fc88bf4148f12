"""Batches of real entries for tests of storage."""

from collections.abc import Sequence

from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries, entry_size
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import DigestType

DIGEST_TYPE = DigestType.XXH3
OVERHEAD_SIZE = entry_size(0, DIGEST_TYPE)


def payload_of(ledger_id: int, entry_id: int, size: int = 20) -> bytes:
    """Return bytes that say whose they are."""
    return b"%d/%d " % (ledger_id, entry_id) * (size // 4 + 1)


def entry_of(ledger_id: int, entry_id: int, payload: bytes | None = None) -> bytes:
    """Return one encoded entry."""
    if payload is None:
        payload = payload_of(ledger_id, entry_id)[:20]
    digest = digest_function(DIGEST_TYPE, b"", ledger_id)
    return encode_entries(ledger_id, [entry_id], -1, 0, [payload], DIGEST_TYPE, digest)[0]


def batch_of(
    ledger_id: int, entry_ids: Sequence[int], payload_size: int | None = None
) -> EntryBatch:
    """Return a batch; payloads have the size given, or each a size of its own."""
    entries = [
        entry_of(
            ledger_id,
            entry_id,
            payload_of(ledger_id, entry_id, payload_size or 40)[
                : payload_size if payload_size is not None else entry_id * 7 % 31
            ],
        )
        for entry_id in entry_ids
    ]
    return EntryBatch.of(ledger_id, entry_ids, [len(e) for e in entries], b"".join(entries))


def entries_in(batch: EntryBatch) -> dict[int, bytes]:
    """Return the encoded entries by id."""
    found = {}
    start = 0
    for entry_id, size in zip(batch.entry_ids, batch.sizes, strict=True):
        found[entry_id] = batch.body[start : start + size]
        start += size
    return found
