"""Reading: the ledgers of one version, split and packed into partitions, as Arrow batches.

Everything about a version is known before a task starts: its ledgers, their entries, rows and
bounds. A ledger larger than ``maxPartitionBytes`` is split by entries; small ones share a
partition. Only ledgers that a version lists are read, and these are closed; digests are verified
and replicas changed by zbk's client.

Spark passes filters to a source only if ``pushFilters`` is set (and Spark's own switch is on: with
the switch off, a reader that accepts filters makes every read fail). The reader uses them to skip
ledgers by their bounds; Spark evaluates them again on the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

import zbk
from pyspark_zbk.clients import close_clients, task_client
from pyspark_zbk.entries import MessageJoiner
from pyspark_zbk.options import PARTITION_SIZE_MIN, Connection, Options
from pyspark_zbk.schemas import arrow_schema, check_readable, spark_schema
from pyspark_zbk.stats import comparable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

PARTITION_SIZE: Final = 128 * 1024 * 1024
SPECULATIVE_READ_MS: Final = 2_000
"""Silence after which another replica is also asked. Longer than a client's default: a job keeps
the cores busy, and a second request for a chunk adds load."""

SLICE_COUNT_MAX: Final = 4_096
"""Limit on the small ledgers that share one partition."""


class Slice(msgspec.Struct, frozen=True):
    """A run of record batches in one ledger: entries ``first .. last``."""

    ledger_id: int
    first: int
    last: int


class SlicesPartition(InputPartition):
    """The partition of one task."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(None)
        self.slices = tuple(slices)


class ZbkReader(DataSourceReader):
    """Reads one version of a data set."""

    def __init__(
        self,
        options: Options,
        connection: Connection,
        snapshot: zbk.Snapshot,
        schema: "StructType",
    ) -> None:
        check_readable(schema, spark_schema(snapshot.schema))
        self._connection = connection
        self._ledgers = snapshot.ledgers
        self._stored_schema = snapshot.schema
        self._schema = schema
        self._partition_size_max = options.size(
            "maxPartitionBytes", PARTITION_SIZE, PARTITION_SIZE_MIN
        )

    def __getstate__(self) -> dict[str, Any]:
        # Spark copies this reader into each task, which knows its slices
        return self.__dict__ | {"_ledgers": ()}

    def partitions(self) -> "Sequence[InputPartition]":
        """Return the partitions of the tasks."""
        return [SlicesPartition(some) for some in plan(self._wanted(), self._partition_size_max)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the batches of one partition."""
        if not isinstance(partition, SlicesPartition):
            return  # Spark's own partition, if there is nothing to read
        try:
            yield from self._read(partition)
        except zbk.ZbkError as error:
            close_clients()
            raise error.with_traceback(None) from None

    def _wanted(self) -> Iterable[zbk.DataLedger]:
        return self._ledgers

    def _read(self, partition: SlicesPartition) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        stored = arrow_schema(spark_schema(self._stored_schema))
        wanted = arrow_schema(self._schema)
        numbers = [stored.get_field_index(name) for name in wanted.names]
        client = task_client(self._connection, speculative_read_ms=SPECULATIVE_READ_MS)
        password = self._connection.password()
        for one in partition.slices:
            with client.open_ledger(one.ledger_id, password) as reader:
                for message in messages(reader, one):
                    batch = pa.ipc.read_record_batch(pa.py_buffer(message), stored)
                    columns = [batch.column(number) for number in numbers]
                    yield pa.RecordBatch.from_arrays(columns, schema=wanted)


class FilteringReader(ZbkReader):
    """A reader that skips ledgers by Spark's filters."""

    def __init__(self, *args: Any) -> None:  # noqa: ANN401 - as ``ZbkReader``
        super().__init__(*args)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: "list[Filter]") -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep all filters, and return them for Spark to evaluate again."""
        self._filters = list(filters)
        return self._filters

    def _wanted(self) -> Iterable[zbk.DataLedger]:
        return [one for one in self._ledgers if all(may_hold(one, f) for f in self._filters)]


def plan(ledgers: Iterable[zbk.DataLedger], size_max: int) -> Iterator[list[Slice]]:
    """Yield the slices of each partition: large ledgers split, small ones packed together."""
    packed: list[Slice] = []
    size = 0
    for one in ledgers:
        batch_count = one.entry_count - 1  # entry 0 is the schema
        if batch_count <= 0:
            continue
        if one.size > size_max:
            yield from ([piece] for piece in _split(one, size_max))
            continue
        if packed and (size + one.size > size_max or len(packed) == SLICE_COUNT_MAX):
            yield packed
            packed, size = [], 0
        packed.append(Slice(one.ledger_id, 1, batch_count))
        size += one.size
    if packed:
        yield packed


def _split(one: zbk.DataLedger, size_max: int) -> Iterator[Slice]:
    batch_count = one.entry_count - 1
    piece_count = min(batch_count, -(-one.size // size_max))
    step = -(-batch_count // piece_count)
    for first in range(1, batch_count + 1, step):
        yield Slice(one.ledger_id, first, min(first + step - 1, batch_count))


def messages(reader: zbk.LedgerReader, one: Slice) -> "Iterator[bytes | memoryview]":
    """Yield the messages that begin in a slice, the last one to its end."""
    joiner = MessageJoiner()
    last_of_ledger = reader.metadata.last_entry_id
    assert last_of_ledger is not None, "only closed ledgers are published"
    for batch in reader.read_batches(one.first, one.last):
        for payload in batch.views():
            message = joiner.add(payload)
            if message is not None:
                yield message
    last = min(one.last + joiner.missing_count, last_of_ledger)
    for entry in reader.read(one.last + 1, last):
        message = joiner.add(entry.payload)
        if message is not None:
            yield message
    if joiner.missing_count:
        raise zbk.CorruptRecordError(f"ledger {one.ledger_id}", last, "a message has no end")


def may_hold(one: zbk.DataLedger, wanted: Filter) -> bool:
    """Return whether a ledger may have rows that pass a filter; true if it is not known."""
    attribute: tuple[str, ...] = getattr(wanted, "attribute", ())
    stats = one.columns.get(attribute[0]) if len(attribute) == 1 else None
    if stats is None:
        return True
    has_values = stats.null_count < one.row_count
    if isinstance(wanted, IsNull):
        return stats.null_count > 0
    if isinstance(wanted, IsNotNull):
        return has_values
    kind = EqualTo if isinstance(wanted, In) else type(wanted)
    if kind not in _MAY_COMPARE:
        return True
    value = getattr(wanted, "value", None)
    values = value if isinstance(wanted, In) else (value,)
    return has_values and any(_may_compare(stats, kind, one_value) for one_value in values or ())


def _may_compare(stats: zbk.ColumnStats, kind: type[Filter], value: Any) -> bool:  # noqa: ANN401
    """Return whether a value of a column may pass the comparison ``kind`` with ``value``."""
    value = comparable(value)
    if stats.low is None or stats.high is None or value != value:  # noqa: PLR0124 - NaN
        return True
    try:
        return bool(_MAY_COMPARE[kind](stats.low, stats.high, value))
    except TypeError:  # a value of another type than the bounds
        return True


_Compare: TypeAlias = Callable[[Any, Any, Any], bool]

_MAY_COMPARE: Final[dict[type[Filter], _Compare]] = {
    EqualTo: lambda low, high, value: low <= value <= high,
    GreaterThan: lambda low, high, value: high > value,  # noqa: ARG005 - one form for all
    GreaterThanOrEqual: lambda low, high, value: high >= value,  # noqa: ARG005
    LessThan: lambda low, high, value: low < value,  # noqa: ARG005
    LessThanOrEqual: lambda low, high, value: low <= value,  # noqa: ARG005
}
"""Whether a value between ``low`` and ``high`` may pass a comparison with ``value``."""
