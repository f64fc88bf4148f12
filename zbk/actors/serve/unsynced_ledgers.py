"""The ledgers of a bookie with acknowledged entries that are not on stable storage.

Only ledgers whose adds are acknowledged after the write (VD) have such entries. They are read from
the groups that wait for an fsync, in the thread of the caller: the actors do no work for it, and it
makes nothing durable. It takes about a microsecond a group; ``journal_unsynced_size_max`` bounds
how many there are.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from zbk.actors.serve.sync_queue import AppendGroup
from zbk.storage.journal.record import EntriesRecord
from zbk.wire.messages import Add

COUNT_MAX: Final = 100
"""Ledgers that one answer of a bookie names."""

Order: TypeAlias = Literal["size", "age"]


class UnsyncedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of a ledger that a loss of power takes from a bookie now."""

    ledger_id: int
    unsynced_size: int  # bytes in the journal
    entry_count: int
    age_ms: int  # of the oldest


def unsynced_ledgers(groups: Iterable[AppendGroup], now_us: int) -> list[UnsyncedLedger]:
    """Return the ledgers with acknowledged entries in groups that are not synced, by id.

    ``groups`` are written, the oldest first in each journal.
    """
    found: dict[int, list[int]] = {}  # size, entries, when the oldest came
    for group in groups:
        requests = [one.inbound.request for one in group.after_write]
        acknowledged = {one.ledger_id for one in requests if isinstance(one, Add)}
        for record in group.records if acknowledged else ():
            if isinstance(record, EntriesRecord) and record.batch.ledger_id in acknowledged:
                one = found.setdefault(record.batch.ledger_id, [0, 0, group.handed_us])
                one[0] += record.size
                one[1] += record.batch.count
    return [
        UnsyncedLedger(
            ledger_id=ledger_id,
            unsynced_size=size,
            entry_count=entry_count,
            age_ms=max(0, now_us - since_us) // 1_000,
        )
        for ledger_id, (size, entry_count, since_us) in sorted(found.items())
    ]


def largest(
    ledgers: Iterable[UnsyncedLedger], order: Order, count: int = COUNT_MAX
) -> list[UnsyncedLedger]:
    """Return so many ledgers, those with the largest size or age first.

    >>> small = UnsyncedLedger(ledger_id=1, unsynced_size=5, entry_count=1, age_ms=900)
    >>> large = UnsyncedLedger(ledger_id=2, unsynced_size=80, entry_count=3, age_ms=20)
    >>> [one.ledger_id for one in largest([small, large], "size")]
    [2, 1]
    >>> [one.ledger_id for one in largest([small, large], "age", 1)]
    [1]
    """

    def rank(one: UnsyncedLedger) -> tuple[int, int, int]:
        size, age = one.unsynced_size, one.age_ms
        first, second = (size, age) if order == "size" else (age, size)
        return -first, -second, one.ledger_id

    return sorted(ledgers, key=rank)[:count]
