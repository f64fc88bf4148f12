"""What was observed, kept as it is until it is counted: many rows at a time, off an append's way.

>>> from zbk.metrics.buckets import Buckets
>>> times = Buckets()
>>> deferred = Deferred(times.observe)
>>> deferred.put(700)
>>> sum(times.counts)
0
>>> deferred.count()
>>> sum(times.counts)
1
"""

from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

Row = TypeVar("Row")

ROW_COUNT_MAX: Final = 256
"""So many rows are counted at once. A loop is quick; a first call between other work is not."""


class Deferred(Generic[Row]):
    """Rows that are not counted yet. Any thread.

    What ``count_row`` changes belongs to this object. A reader of it calls ``count`` first.
    """

    __slots__ = ("_count_row", "_lock", "_rows")

    def __init__(self, count_row: Callable[[Row], object]) -> None:
        self._count_row = count_row
        self._rows: list[Row] = []
        self._lock = Lock()

    def put(self, row: Row) -> None:
        """Keep a row; count all of them if there are many."""
        rows = self._rows
        rows.append(row)
        if len(rows) >= ROW_COUNT_MAX:
            self.count()

    def count(self) -> None:
        """Count the rows that are there, each once."""
        with self._lock:
            rows = self._rows.copy()
            del self._rows[: len(rows)]  # others may have come: they stay
            for row in rows:
                self._count_row(row)
