"""Counts of a client's requests, by operation. The pool's thread counts, any thread may read."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred
from zbk.metrics.table import OPERATIONS
from zbk.wire.messages import Add, Message, Read, ReadLac, Sync, WatchLacs, WriteLac

_OPERATION_OF: Final[dict[type[Message], str]] = {
    Add: "add",
    Read: "read",
    ReadLac: "lac",
    WatchLacs: "lac",
    WriteLac: "lac",
    Sync: "sync",
}

Answered: TypeAlias = tuple[type[Message], int]
"""The class of a request, and the milliseconds that it took."""


class RequestCounts:
    """The counts of one pool. The keys never change.

    Times are kept from ``keep_times`` on: where nothing reads them, they would only cost.
    """

    def __init__(self) -> None:
        self._times = {operation: Buckets() for operation in OPERATIONS}
        self._times_of = {kind: self._times[name] for kind, name in _OPERATION_OF.items()}
        self.connection_count = 0  # of bookies that are connected and greeted
        self.failure_counts = dict.fromkeys(OPERATIONS, 0)
        self.answered: Deferred[Answered] | None = None

    def keep_times(self) -> None:
        """Keep how long requests take from now on. Any thread."""
        self.answered = Deferred(self._observe)

    @property
    def times(self) -> dict[str, Buckets]:
        """How long requests took, by operation."""
        if self.answered is not None:
            self.answered.count()
        return self._times

    def failed(self, request: Message) -> None:
        """Count a request that was refused, timed out, or lost its connection."""
        self.failure_counts[_OPERATION_OF.get(type(request), "other")] += 1

    def _observe(self, rows: Sequence[Answered]) -> None:
        for (kind, duration_ms), count in Counter(rows).items():
            buckets = self._times_of.get(kind) or self._times["other"]
            buckets.observe(1_000 * duration_ms, count)
