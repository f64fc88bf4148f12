"""Entries of a log as rows: the partitions of tasks, and their Arrow batches.

    value      binary     the payload
    ledger_id  long       with ``entry_id`` the entry's position
    entry_id   long
    timestamp  timestamp  null: an entry carries no time, and a ledger's would not be the entry's
    log        string     the log's name

A task reads with zbk's ordinary reader: digests are verified, and another replica replaces one that
fails. The planner of the batch determined the end of a range by the LAC, and a task does not ask
again: the bookies that a task asks may not know this LAC yet, although they hold the entries.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import zbk
from pyspark_zbk.clients import close_clients, task_client
from pyspark_zbk.options import Connection
from pyspark_zbk.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

_CURE: Final = "to go on with what is left, set the option failOnDataLoss to false"

LOG_SCHEMA: Final = StructType(
    [
        StructField("value", BinaryType()),
        StructField("ledger_id", LongType()),
        StructField("entry_id", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("log", StringType()),
    ]
)


class EntryRange(msgspec.Struct, frozen=True):
    """The entries ``first .. last`` of one ledger; never empty."""

    ledger_id: int
    first: int
    last: int

    def __len__(self) -> int:
        """Return the number of entries."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.first}..{self.last}"


class LogPartition(InputPartition):
    """The partition of one task."""

    def __init__(self, ranges: Sequence[EntryRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


class LogRows:
    """Reads partitions of a log, in tasks. Plain values only: Spark sends it to them."""

    def __init__(
        self, connection: Connection, name: str, schema: StructType, *, fails_on_loss: bool
    ) -> None:
        check_columns(schema)
        self._connection = connection
        self._name = name
        self._schema = schema
        self._fails_on_loss = fails_on_loss

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one partition.

        Raises:
            LogTruncatedError: the entries were truncated after the batch was planned.
        """
        if not isinstance(partition, LogPartition):
            return  # Spark's own partition, if there is nothing to read
        try:
            for one in partition.ranges:
                yield from self._rows(one)
        except zbk.ZbkError as error:
            close_clients()
            raise error.with_traceback(None) from None

    def _rows(self, one: EntryRange) -> "Iterator[pa.RecordBatch]":
        schema = arrow_schema(self._schema)
        client = task_client(self._connection)
        try:
            with client.open_ledger(one.ledger_id, self._connection.password()) as reader:
                reader.learn(reader.metadata, one.last)
                for batch in reader.read_batches(one.first, one.last):
                    yield rows_of(batch, schema, self._name)
        except zbk.ZbkError as error:
            if not _is_gone(client, one.ledger_id):
                raise
            if self._fails_on_loss:
                raise truncated(self._name, str(one), client) from error


def rows_of(batch: "zbk.ReadBatch", schema: "pa.Schema", name: str) -> "pa.RecordBatch":
    """Return entries as rows; Arrow slices all payloads at once."""
    import pyarrow as pa

    count = len(batch)
    columns: dict[str, Any] = {
        "value": lambda: _payloads(batch),
        "ledger_id": lambda: pa.repeat(pa.scalar(batch.ledger_id, pa.int64()), count),
        "entry_id": lambda: pa.array(batch.entry_ids, pa.int64()),
        "timestamp": lambda: pa.nulls(count, schema.field("timestamp").type),
        "log": lambda: pa.repeat(pa.scalar(name, pa.string()), count),
    }
    return pa.RecordBatch.from_arrays([columns[wanted]() for wanted in schema.names], schema=schema)


def check_columns(schema: StructType) -> None:
    """Refuse columns that a log does not have: ``schema(...)`` may be the user's.

    Raises:
        InvalidOptionError: there is such a column; the text names the first one.
    """
    for field in schema.fields:
        there = LOG_SCHEMA[field.name].dataType if field.name in LOG_SCHEMA.names else None
        if there != field.dataType:
            raise zbk.InvalidOptionError(
                "schema",
                f"{field.name} {field.dataType.simpleString()}",
                f"a log has the columns {LOG_SCHEMA.simpleString()}, and value is to be decoded "
                "by the query",
            )


def truncated(name: str, what: str, client: "zbk.Client") -> zbk.LogTruncatedError:
    """Return the error for entries that are not in the log any more."""
    begin = client.get_log_metadata(name).begin
    error = zbk.LogTruncatedError(name, what, str(begin))
    error.add_note(_CURE)
    return error


@contextmanager
def may_go_on() -> Iterator[None]:
    """Add to an error of zbk how to go on without the entries that it is about."""
    try:
        yield
    except zbk.ZbkError as error:
        error.add_note(_CURE)
        raise


def _payloads(batch: "zbk.ReadBatch") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    body, bounds, before, behind = batch.layout
    offsets = pa.py_buffer(array("i", bounds))
    entries = pa.Array.from_buffers(pa.binary(), len(batch), [None, offsets, pa.py_buffer(body)])
    return pc.binary_slice(entries, before, -behind if behind else None)


def _is_gone(client: "zbk.Client", ledger_id: int) -> bool:
    try:
        client.get_ledger_metadata(ledger_id)
    except zbk.NoSuchLedgerError:
        return True
    return False
