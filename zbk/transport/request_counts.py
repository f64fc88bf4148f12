"""Counts of a client's requests, by operation. The pool's thread counts, any thread may read."""

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

Answered: TypeAlias = tuple[type[Message], int, int]
"""The class of requests, the milliseconds that they took, and how many of them there were."""


class RequestCounts:
    """The counts of one pool. The keys never change."""

    def __init__(self) -> None:
        self._times = {operation: Buckets() for operation in OPERATIONS}
        self.connection_count = 0  # of bookies that are connected and greeted
        self.failure_counts = dict.fromkeys(OPERATIONS, 0)
        self._times_of = {kind: self._times[name] for kind, name in _OPERATION_OF.items()}
        self.answered = Deferred[Answered](self._observe)

    @property
    def times(self) -> dict[str, Buckets]:
        """How long requests took, by operation."""
        self.answered.count()
        return self._times

    def _observe(self, rows: Sequence[Answered]) -> None:
        for kind, duration_ms, count in rows:
            buckets = self._times_of.get(kind) or self._times["other"]
            buckets.observe(1_000 * duration_ms, count)

    def failed(self, request: Message) -> None:
        """Count a request that was refused, timed out, or lost its connection."""
        self.failure_counts[_OPERATION_OF.get(type(request), "other")] += 1
