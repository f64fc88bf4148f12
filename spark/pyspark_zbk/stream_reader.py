"""Reading a log as a stream: ``spark.readStream.format("zbk").option("log", NAME)``.

    latestOffset   planner    how far the next micro-batch goes: over entries that are confirmed
    partitions     planner    which ranges of which ledgers that is; the same for the same offsets
    read           task       the rows of some ranges

Spark writes the two offsets of a micro-batch down before it reads, and after a crash it reads the
same batch again. Entries before the head of a log never change, nor does their order, whoever owns
the log by then: so the batch is the same.

An owner who begins a new ledger moves the head though no entry came: Spark then runs a micro-batch
without rows, and remembers a position that does not need the old ledger any more.

One process plans a query for as long as it runs; it keeps a client. Tasks use those of their
workers.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

import zbk
from pyspark_zbk import log_plan
from pyspark_zbk.log_follower import LogFollower
from pyspark_zbk.log_options import (
    EARLIEST,
    LATEST,
    LogOptions,
    Offset,
    offset_of,
    position_of,
)
from pyspark_zbk.log_rows import LogPartition, LogRows
from pyspark_zbk.options import Connection
from pyspark_zbk.plain_errors import told_plainly

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The entries of one log, in micro-batches."""

    def __init__(self, options: LogOptions, connection: Connection, schema: "StructType") -> None:
        self._options = options
        self._connection = connection
        self._rows = LogRows(connection, options.name, schema, fails_on_loss=options.fails_on_loss)
        self._target: zbk.LogPosition | None = None  # of a query that ends where the log does now
        self._client: zbk.Client | None = None
        self._follower: LogFollower | None = None

    # ------------------------------------------------------------------ the planner

    @told_plainly
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a new query starts."""
        follower, start = self._followed(), self._options.start
        if start == EARLIEST:
            return self._offset(follower.begin(is_fresh=True))
        head = follower.head(is_fresh=True)
        if isinstance(start, zbk.LogPosition):
            follower.check("startingOffsets", start, head)
            return self._offset(start)
        assert start == LATEST, "a position, or one of two words"
        return self._offset(head)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a micro-batch; there is no kind for two, so one stands for both."""
        if self._options.entry_count_max is not None:
            return ReadMaxRows(self._options.entry_count_max)
        if self._options.size_max is not None:
            return ReadMaxBytes(self._options.size_max)
        return ReadAllAvailable()

    @told_plainly
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return how far the next micro-batch goes; ``start`` if there is nothing new.

        A cluster that does not answer has no news, for a while. But a query for what is available
        would end here, as if it had all of it.
        """
        follower, begin = self._followed(), self._position(start)
        try:
            end = self._next(follower, begin, limit)
        except zbk.UnavailableError:
            if self._target is not None or not follower.may_wait():
                raise
            return start
        return start if end == begin else self._offset(end)

    @told_plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note where the log ends: the query goes so far."""
        self._target = self._followed().head(is_fresh=True)

    @told_plainly
    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return where the log ends, for the query's progress; ``None``: nobody says so now."""
        try:
            return self._offset(self._followed().head())
        except zbk.UnavailableError:
            return None

    @told_plainly
    def partitions(self, start: Offset, end: Offset) -> "Sequence[InputPartition]":
        """Return what the tasks of a micro-batch read."""
        first, last = self._position(start), self._position(end)
        if last <= first:
            return []
        follower = self._followed()
        return plan(follower, first, last, self._options)

    def stop(self) -> None:
        """Release the cluster."""
        if self._follower is not None:
            self._follower.close()
        if self._client is not None:
            self._client.close()
        self._client = self._follower = None

    # ------------------------------------------------------------------ a task

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one partition."""
        return self._rows.read(partition)

    # ------------------------------------------------------------------ private

    def __getstate__(self) -> dict[str, Any]:
        # a copy of this goes into each task: what belongs to this process stays
        return self.__dict__ | {"_client": None, "_follower": None}

    def _followed(self) -> LogFollower:
        if self._follower is None:
            connection = self._connection
            self._client = zbk.connect(connection.metadata, **connection.client_options)
            self._follower = LogFollower(self._client, self._options.name, connection.password())
        return self._follower

    def _next(
        self, follower: LogFollower, begin: zbk.LogPosition, limit: ReadLimit
    ) -> zbk.LogPosition:
        options = self._options
        head = follower.head() if self._target is None else self._target
        if head <= begin:
            return begin
        begin = follower.clamped(begin, fails_on_loss=options.fails_on_loss)
        if head <= begin or isinstance(limit, ReadAllAvailable):
            return max(head, begin)
        limits = log_plan.Limits(entry_count=options.entry_count_max, size=options.size_max)
        return log_plan.limited(follower.ledger_ids, begin, head, limits, follower)

    def _offset(self, position: zbk.LogPosition) -> Offset:
        return offset_of(self._options.name, position)

    def _position(self, offset: Offset) -> zbk.LogPosition:
        return position_of(self._options.name, offset)


def plan(
    follower: LogFollower, start: zbk.LogPosition, end: zbk.LogPosition, options: LogOptions
) -> list[InputPartition]:
    """Return what tasks read between two positions.

    Raises:
        LogTruncatedError: some of it is gone, and that is to be an error.
        InvalidOptionError: the positions are not of this log.
    """
    start = follower.clamped(start, fails_on_loss=options.fails_on_loss)
    if end <= start:
        return []
    follower.check_listed(end)
    found = log_plan.ranges(follower.ledger_ids, start, end, follower)
    groups = log_plan.partitions(found, options.partition_size, follower)
    return [LogPartition(group) for group in groups]
