"""Counts of a client's requests, by operation. The pool's thread counts, any thread may read."""

from typing import Final

from zbk.metrics.buckets import Buckets
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


class RequestCounts:
    """The counts of one pool. The keys never change."""

    def __init__(self) -> None:
        self.times = {operation: Buckets() for operation in OPERATIONS}
        self.connection_count = 0  # of bookies that are connected and greeted
        self.failure_counts = dict.fromkeys(OPERATIONS, 0)
        self._times_of = {kind: self.times[name] for kind, name in _OPERATION_OF.items()}

    def answered(self, kind: type[Message], duration_ms: int, count: int = 1) -> None:
        """Count answers to requests of one class that took the same time."""
        buckets = self._times_of.get(kind) or self.times["other"]
        buckets.observe(1_000 * duration_ms, count)

    def failed(self, request: Message) -> None:
        """Count a request that was refused, timed out, or lost its connection."""
        self.failure_counts[_OPERATION_OF.get(type(request), "other")] += 1
