"""Counters and times of adds, by ledger type: one thread writes them, any thread may read.

``AddCounts`` is written by the storage actor, ``AnswerTimes`` by the actors of a journal.
"""

from collections.abc import Iterable

import msgspec

from zbk.metrics.buckets import Buckets
from zbk.protocol.entry.words import LedgerType


class TypeCounts(msgspec.Struct):
    """What adds stored on ledgers of one type."""

    batch_count: int = 0
    entry_count: int = 0
    size: int = 0  # bytes

    def stored(self, entry_count: int, size: int) -> None:
        """Count an add."""
        self.batch_count += 1
        self.entry_count += entry_count
        self.size += size


class AddCounts:
    """What adds stored. The keys of ``by_type`` never change."""

    def __init__(self) -> None:
        self.by_type = {ledger_type: TypeCounts() for ledger_type in LedgerType}

    @property
    def batch_count(self) -> int:
        """Adds."""
        return sum(one.batch_count for one in self.by_type.values())

    @property
    def entry_count(self) -> int:
        """Entries of these adds."""
        return sum(one.entry_count for one in self.by_type.values())

    @property
    def size(self) -> int:
        """Bytes of these entries."""
        return sum(one.size for one in self.by_type.values())


class AnswerTimes:
    """From adds to their answers, one value for each group and type. Of one thread at a time."""

    def __init__(self) -> None:
        self.by_type = {ledger_type: Buckets() for ledger_type in LedgerType}

    def answered(self, ledger_types: Iterable[LedgerType], received_us: int, now_us: int) -> None:
        """Count the answers of a group with adds to ledgers of these types.

        ``received_us`` is 0 if the group has no requests.
        """
        if received_us:
            for ledger_type in ledger_types:
                self.by_type[ledger_type].observe(now_us - received_us)
