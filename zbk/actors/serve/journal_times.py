"""How long the groups of one journal took: what its two actors observe, and the histograms of it.

A group that the journal actor writes and syncs by itself is one row, so it costs a lone add one
call. Rows are counted later (``zbk.metrics.deferred``).
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred
from zbk.protocol.entry.words import LedgerType

WriteTime: TypeAlias = tuple[int, int]
"""Microseconds: how long the first group of a write waited for it, and how long it took."""

AnswerTime: TypeAlias = tuple[Sequence[LedgerType], int]
"""The types of the ledgers whose adds a group answered, and microseconds since they came."""

Row: TypeAlias = tuple[Sequence[WriteTime], int, Sequence[AnswerTime]]
"""Writes; an fsync in microseconds, or ``NO_FSYNC``; answers."""

NO_FSYNC: Final = -1


class JournalTimes:
    """The times of one journal. Any thread."""

    def __init__(self) -> None:
        self._waits = Buckets()
        self._writes = Buckets()
        self._fsyncs = Buckets()
        self._answers = {ledger_type: Buckets() for ledger_type in LedgerType}
        self.observed = Deferred[Row](self._count)

    @property
    def waits(self) -> Buckets:
        """How long groups waited until their write began."""
        self.observed.count()
        return self._waits

    @property
    def writes(self) -> Buckets:
        """How long writes took."""
        self.observed.count()
        return self._writes

    @property
    def fsyncs(self) -> Buckets:
        """How long fsyncs took that had records to sync."""
        self.observed.count()
        return self._fsyncs

    @property
    def answers(self) -> Mapping[LedgerType, Buckets]:
        """How long it took from adds to their answers: one value for each group and type."""
        self.observed.count()
        return self._answers

    def _count(self, rows: Sequence[Row]) -> None:
        writes = [one for row in rows for one in row[0]]
        self._waits.observe_all([wait_us for wait_us, _ in writes])
        self._writes.observe_all([write_us for _, write_us in writes])
        self._fsyncs.observe_all([row[1] for row in rows if row[1] != NO_FSYNC])
        answers = [one for row in rows for one in row[2]]
        for ledger_type, buckets in self._answers.items():
            buckets.observe_all([took_us for types, took_us in answers if ledger_type in types])
