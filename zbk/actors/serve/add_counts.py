"""Counters of adds, by ledger type: the storage actor writes them, any thread may read."""

import msgspec

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
