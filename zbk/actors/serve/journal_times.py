"""How long the groups of one journal took: what its two actors observe, and the histograms of it.

A group that the journal actor writes and syncs by itself is one row. Rows are counted later
(``zbk.metrics.deferred``). Where lone adds are frequent, some are timed, and a row stands for
several groups (``zbk.metrics.sampling``): the counts of the histograms lag by a few groups then.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred
from zbk.protocol.entry.words import LedgerType

NONE: Final = -1
"""A time that a row does not have."""

UNTIMED: Final = -1
"""When a request came that is not timed. 0 is not known: it did not come from the front."""

WriteTime: TypeAlias = tuple[int, int, int]
"""How many writes it stands for; microseconds: how long the first group of a write waited for it,
and how long it took."""

NO_WRITE: Final[WriteTime] = (1, NONE, NONE)

Row: TypeAlias = tuple[int, int, int, int, Sequence[LedgerType], int]
"""How many alike it stands for. Microseconds, or ``NONE``: the wait for a write, the write, an
fsync; the types of the ledgers whose adds a group answered, and microseconds since they came."""


class JournalTimes:
    """The times of one journal. Any thread.

    They are kept from ``keep`` on: where nothing reads them, they would only cost.
    """

    def __init__(self) -> None:
        self._waits = Buckets()
        self._writes = Buckets()
        self._fsyncs = Buckets()
        self._answers = {ledger_type: Buckets() for ledger_type in LedgerType}
        self.observed: Deferred[Row] | None = None

    def keep(self) -> Deferred[Row]:
        """Keep what is observed from now on, in the rows that are returned."""
        self.observed = Deferred(self._count)
        return self.observed

    @property
    def waits(self) -> Buckets:
        """How long groups waited until their write began."""
        self._count_observed()
        return self._waits

    @property
    def writes(self) -> Buckets:
        """How long writes took."""
        self._count_observed()
        return self._writes

    @property
    def fsyncs(self) -> Buckets:
        """How long fsyncs took that had records to sync."""
        self._count_observed()
        return self._fsyncs

    @property
    def answers(self) -> Mapping[LedgerType, Buckets]:
        """How long it took from adds to their answers: one value for each group and type."""
        self._count_observed()
        return self._answers

    def _count_observed(self) -> None:
        if self.observed is not None:
            self.observed.count()

    def _count(self, rows: Sequence[Row]) -> None:
        for count in {row[0] for row in rows}:
            alike = [row for row in rows if row[0] == count]
            _, waits, writes, fsyncs, types, answers = zip(*alike, strict=True)
            for buckets, times_us in (
                (self._waits, waits),
                (self._writes, writes),
                (self._fsyncs, fsyncs),
            ):
                buckets.observe_all([one for one in times_us if one != NONE], count)
            for its in set(types):
                took_us = [us for one, us in zip(types, answers, strict=True) if one == its]
                for ledger_type in its:
                    self._answers[ledger_type].observe_all(took_us, count)
