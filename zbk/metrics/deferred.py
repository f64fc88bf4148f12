"""What was observed, kept as it is until it is counted: many rows at a time, off an append's way.

>>> from zbk.metrics.buckets import Buckets
>>> times = Buckets()
>>> deferred = Deferred(times.observe_all)
>>> deferred.put(700)
>>> sum(times.counts)
0
>>> deferred.count()
>>> sum(times.counts)
1
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, Generic, TypeVar

Row = TypeVar("Row")

ROW_COUNT_MAX: Final = 256
"""So many rows are counted at once. A loop is quick; a first call between other work is not."""


class Deferred(Generic[Row]):
    """Rows that are not counted yet. Any thread.

    What ``count_rows`` changes belongs to this object. A reader of it calls ``count`` first.
    """

    __slots__ = ("_count_rows", "_lock", "rows")

    def __init__(self, count_rows: Callable[[Sequence[Row]], object]) -> None:
        self._count_rows = count_rows
        self.rows: list[Row] = []
        self._lock = Lock()

    def put(self, row: Row) -> None:
        """Keep a row; count all of them if there are many."""
        self.rows.append(row)
        if len(self.rows) >= ROW_COUNT_MAX:
            self.count()

    def count(self) -> None:
        """Count the rows that are there, each once."""
        with self._lock:
            rows = self.rows.copy()
            del self.rows[: len(rows)]  # others may have come: they stay
            if rows:
                self._count_rows(rows)
