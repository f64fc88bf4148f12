"""What requests tell the oracle of a bookie: keys, entries with their checksums, LACs, slots."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, TypeAlias

from tests.simulation.passwords import key_of
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.entry import stored_lac
from zbk.protocol.entry.entry_batch import COUNT_MAX, sizes_from_wire
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import Stripe
from zbk.wire.codec import decode_ids
from zbk.wire.messages import Add, Read, ReadLac, Sync, WriteLac

Entries = dict[int, int]
"""By entry id: the checksum of its bytes."""

LedgerRequest: TypeAlias = Add | WriteLac | Sync | Read | ReadLac
LEDGER_REQUESTS: Final = (Add, WriteLac, Sync, Read, ReadLac)


def has_key(request: LedgerRequest) -> bool:
    """Return whether a request shows the key of its ledger."""
    return request.ledger_key == key_of(request.ledger_id)


@lru_cache(maxsize=64)
def is_due_at(stripe: Stripe, entry_id: int) -> bool:
    """Return whether an entry is due at a slot, as ``Quorum`` says it."""
    return Quorum(stripe.ensemble_size, stripe.write_size, 1).holds(stripe.slot, entry_id)


def entries_of(
    first_entry_id: int, is_striped: bool, frames: tuple[bytes, ...]
) -> tuple[tuple[int, int], ...]:
    """Return id and checksum of each entry of an add."""
    sizes = sizes_from_wire(frames[0])
    ids: Sequence[int] = range(first_entry_id, first_entry_id + len(sizes))
    if is_striped:
        ids = decode_ids(frames[2], COUNT_MAX)
    entries, offset = [], 0
    for entry_id, size in zip(ids, sizes, strict=True):
        entries.append((entry_id, checksum(frames[1][offset : offset + size])))
        offset += size
    return tuple(entries)


@lru_cache(maxsize=64)
def highest_lac(frames: tuple[bytes, ...]) -> int:
    """Return the highest LAC in the headers of an add's entries."""
    ends = list(accumulate(sizes_from_wire(frames[0]), initial=0))
    return max(stored_lac(frames[1], start) for start in ends[:-1])
