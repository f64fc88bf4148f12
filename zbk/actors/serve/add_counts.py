"""Counters and times of adds, by ledger type: one thread writes them, any thread may read.

``AddCounts`` is written by the storage actor, ``answer_times`` by the actors of a journal.
"""

import msgspec

from zbk.metrics.buckets import Buckets
from zbk.protocol.entry.words import LedgerType


class TypeCounts(msgspec.Struct):
    """What adds stored on ledgers of one type."""

    batch_count: int = 0
    entry_count: int = 0
    size: int = 0  # bytes


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


def answer_times() -> dict[LedgerType, Buckets]:
    """Return histograms of times from adds to their answers, one value for each group and type."""
    return {ledger_type: Buckets() for ledger_type in LedgerType}
