"""Counts of a client's requests, by operation. The pool's thread counts, any thread may read."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred
from zbk.metrics.table import OPERATIONS
from zbk.transport.events import Outgoing
from zbk.wire.messages import Add, Message, Read, ReadLac, Sync, WatchLacs, WriteLac

_OPERATION_OF: Final[dict[type[Message], str]] = {
    Add: "add",
    Read: "read",
    ReadLac: "lac",
    WatchLacs: "lac",
    WriteLac: "lac",
    Sync: "sync",
}

_Answered: TypeAlias = tuple[type[Message], int, int]
"""The class of requests, the milliseconds that they took, and how many of them there were."""


class RequestCounts:
    """The counts of one pool. The keys never change.

    Times are kept from ``keep_times`` on: where nothing reads them, they would only cost. What is
    answered in a turn of the pool is noted in ``answered`` and counted once the answers have been
    handed out, when no caller waits for it.
    """

    def __init__(self) -> None:
        self._times = {operation: Buckets() for operation in OPERATIONS}
        self._times_of = {kind: self._times[name] for kind, name in _OPERATION_OF.items()}
        self._rows = Deferred(self._observe)
        self.connection_count = 0  # of bookies that are connected and greeted
        self.failure_counts = dict.fromkeys(OPERATIONS, 0)
        self.answered: list[Outgoing] | None = None

    def keep_times(self) -> None:
        """Keep how long requests take from now on. Any thread."""
        self.answered = []

    @property
    def times(self) -> dict[str, Buckets]:
        """How long requests took, by operation."""
        self._rows.count()
        return self._times

    def count_answered(self, now_ms: int) -> None:
        """Count what was answered in this turn."""
        answered, self.answered = self.answered, []
        alike: dict[tuple[type[Message], int], int] = {}
        for one in answered or ():
            row = type(one.request), one.handed_ms
            alike[row] = alike.get(row, 0) + 1
        for (kind, handed_ms), count in alike.items():
            self._rows.put((kind, now_ms - handed_ms, count))

    def failed(self, request: Message) -> None:
        """Count a request that was refused, timed out, or lost its connection."""
        self.failure_counts[_OPERATION_OF.get(type(request), "other")] += 1

    def _observe(self, rows: Sequence[_Answered]) -> None:
        for kind, duration_ms, count in rows:
            buckets = self._times_of.get(kind) or self._times["other"]
            buckets.observe(1_000 * duration_ms, count)
