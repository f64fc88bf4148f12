"""Reading a log as a stream: ``spark.readStream.format("zbk").option("log", NAME)``.

    latestOffset   planner    the end of the next micro-batch, within the confirmed entries
    partitions     planner    its ranges of ledgers; the same for the same offsets
    read           task       the rows of some ranges

Spark records the two offsets of a micro-batch before it reads, and after a crash it reads the same
batch again. Entries before the head of a log, and their order, never change, even if the owner
does: so the batch is the same.

An owner that begins a new ledger moves the head without a new entry: Spark then runs a micro-batch
without rows, and keeps a position that does not need the old ledger any more.

One process plans a query as long as it runs, with its own client. Tasks use the clients of their
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
from pyspark_zbk.log_rows import LogPartition, LogRows, may_go_on
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
        self._target: zbk.LogPosition | None = (
            None  # of a query that ends at the current end of the log
        )
        self._client: zbk.Client | None = None
        self._follower: LogFollower | None = None

    # ------------------------------------------------------------------ the planner

    @told_plainly
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the start of a new query."""
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
        """Return the limit of a micro-batch; of two limits Spark can show only one."""
        if self._options.entry_count_max is not None:
            return ReadMaxRows(self._options.entry_count_max)
        if self._options.size_max is not None:
            return ReadMaxBytes(self._options.size_max)
        return ReadAllAvailable()

    @told_plainly
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next micro-batch; ``start`` if there is nothing new.

        For a while, a cluster that does not answer counts as having nothing new. A query for the
        available entries would end here, as if it had all of them.
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
        """Record the current end of the log as the end of the query."""
        self._target = self._followed().head(is_fresh=True)

    @told_plainly
    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the end of the log, for the query's progress; ``None`` if it is not known."""
        try:
            return self._offset(self._followed().head())
        except zbk.UnavailableError:
            return None

    @told_plainly
    def partitions(self, start: Offset, end: Offset) -> "Sequence[InputPartition]":
        """Return the partitions of a micro-batch."""
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
        # Spark copies this reader into each task, without the parts of this process
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
    """Return the partitions between two positions.

    Raises:
        LogTruncatedError: some entries are gone, and ``failOnDataLoss`` is set.
        InvalidOptionError: the positions belong to another log; or, if ``failOnDataLoss`` is set,
            the start is after the end of a ledger that has a successor.
    """
    start = follower.clamped(start, fails_on_loss=options.fails_on_loss)
    if end <= start:
        return []
    follower.check_listed(end)
    if options.fails_on_loss:
        with may_go_on():
            follower.check("position", start, end)
    found = log_plan.ranges(follower.ledger_ids, start, end, follower)
    groups = log_plan.partitions(found, options.partition_size, follower)
    return [LogPartition(group) for group in groups]
