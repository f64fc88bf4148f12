"""Counts of a client's requests, by operation. The pool's thread counts, any thread may read."""

from collections import defaultdict
from typing import Final

from zbk.metrics.buckets import Buckets
from zbk.metrics.sampling import Sampling
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


class RequestTimes(Sampling):
    """How long requests took. The pool's thread counts, any thread may read.

    A connection takes one from ``left_count`` for an answer, or calls ``count`` if that is 1.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        super().__init__()
        self._counts: defaultdict[type[Message], dict[int, int]] = defaultdict(dict)

    def count(self, kind: type[Message], took_ms: int, now_ms: int) -> None:
        """Count a request for as many as it stands for."""
        counts = self._counts[kind]  # by milliseconds, which the time-out of requests limits
        counts[took_ms] = counts.get(took_ms, 0) + self.share
        self.timed(1_000 * now_ms)

    def by_operation(self) -> dict[str, Buckets]:
        """Return the histograms."""
        found = {operation: Buckets() for operation in OPERATIONS}
        for kind, counts in list(self._counts.items()):
            buckets = found[_OPERATION_OF.get(kind, "other")]
            for took_ms, count in list(counts.items()):
                buckets.observe(1_000 * took_ms, count)
        return found


class RequestCounts:
    """The counts of one pool. The keys never change.

    Times are kept from ``keep_times`` on: where nothing reads them, they would only cost.
    """

    def __init__(self) -> None:
        self.connection_count = 0  # of bookies that are connected and greeted
        self.failure_counts = dict.fromkeys(OPERATIONS, 0)
        self.answered: RequestTimes | None = None

    def keep_times(self) -> RequestTimes:
        """Keep how long requests take from now on. Any thread."""
        self.answered = RequestTimes()
        return self.answered

    @property
    def times(self) -> dict[str, Buckets]:
        """How long requests took, by operation."""
        return (self.answered or RequestTimes()).by_operation()

    def failed(self, request: Message) -> None:
        """Count a request that was refused, timed out, or lost its connection."""
        self.failure_counts[_OPERATION_OF.get(type(request), "other")] += 1
