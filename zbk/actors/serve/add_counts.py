"""Counters and times of adds, by ledger type: one thread writes them, any thread may read.

``AddCounts`` is written by the storage actor, ``AnswerTimes`` by the actors of a journal.
"""

from collections.abc import Mapping, Sequence

import msgspec

from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred
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


class AnswerTimes:
    """How long it took from adds to their answers: one value for each group and type."""

    def __init__(self) -> None:
        self._by_type = {ledger_type: Buckets() for ledger_type in LedgerType}
        self._observed = Deferred(self._count)

    @property
    def by_type(self) -> Mapping[LedgerType, Buckets]:
        """The histograms, up to date."""
        self._observed.count()
        return self._by_type

    def answered(self, ledger_types: Sequence[LedgerType], duration_us: int) -> None:
        """Record that a group with adds of these types was answered."""
        self._observed.put((ledger_types, duration_us))

    def _count(self, row: tuple[Sequence[LedgerType], int]) -> None:
        ledger_types, duration_us = row
        for ledger_type in ledger_types:
            self._by_type[ledger_type].observe(duration_us)
