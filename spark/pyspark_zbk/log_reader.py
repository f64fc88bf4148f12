"""Reading a log as a frame: ``spark.read.format("zbk").option("log", NAME)``.

The read covers the range between two positions that are determined once, when the frame is loaded:
all its actions see the same entries. Rows are those of a stream (``pyspark_zbk.log_rows``).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceReader, InputPartition

import zbk
from pyspark_zbk.clients import located, planning_client
from pyspark_zbk.log_follower import LogFollower
from pyspark_zbk.log_options import BEFORE_ALL, EARLIEST, LATEST, LogOptions
from pyspark_zbk.log_rows import LOG_SCHEMA, LogRows
from pyspark_zbk.options import Connection
from pyspark_zbk.stream_reader import plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class LogFound(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a log when a frame was loaded: plain values that travel with the frame."""

    connection: Connection
    begin: zbk.LogPosition
    head: zbk.LogPosition

    @property
    def schema(self) -> "StructType":
        """The columns of a log."""
        return LOG_SCHEMA


class LogReader(DataSourceReader):
    """The entries of a log between two positions."""

    def __init__(self, options: LogOptions, found: LogFound, schema: "StructType") -> None:
        self._options = options
        self._connection = found.connection
        self._rows = LogRows(
            found.connection, options.name, schema, fails_on_loss=options.fails_on_loss
        )
        with planning_client(found.connection) as client:
            follower = LogFollower(client, options.name, found.connection.password())
            self._start = _start(follower, options, found)
            self._end = _end(follower, options, found)

    def partitions(self) -> "Sequence[InputPartition]":
        """Return the partitions of the tasks."""
        if self._end <= self._start:
            return []
        with planning_client(self._connection) as client:
            follower = LogFollower(client, self._options.name, self._connection.password())
            return plan(follower, self._start, self._end, self._options)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one partition."""
        return self._rows.read(partition)


def find_log(connection: Connection, name: str) -> LogFound:
    """Return the state of a log.

    Raises:
        NoSuchLogError: there is no such log.
        UnauthorizedError: the password is wrong.
    """
    with planning_client(connection) as client:
        follower = LogFollower(client, name, connection.password())
        begin = follower.begin()
        return LogFound(
            connection=located(connection, client), begin=begin, head=follower.head(is_fresh=True)
        )


def _start(follower: LogFollower, options: LogOptions, found: LogFound) -> zbk.LogPosition:
    if options.start == EARLIEST:
        return found.begin
    assert isinstance(options.start, zbk.LogPosition), "a position, or a word"
    start = follower.clamped(options.start, fails_on_loss=options.fails_on_loss)
    follower.check("startingOffsets", start, found.head)
    return start


def _end(follower: LogFollower, options: LogOptions, found: LogFound) -> zbk.LogPosition:
    if options.end == LATEST:
        return found.head
    assert isinstance(options.end, zbk.LogPosition), "a position, or a word"
    if options.end > found.head:
        at = "it has no entry" if found.head == BEFORE_ALL else f"it ends at {found.head}"
        raise zbk.InvalidOptionError("endingOffsets", str(options.end), f"as yet {at}")
    if options.end >= follower.begin():
        follower.check("endingOffsets", options.end, found.head)
    return options.end
