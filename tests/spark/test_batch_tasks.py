"""A writer and a reader as Spark's processes have them: pickled, in tasks, in little memory."""

import io
import pickle
import tracemalloc
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

import zbk
from pyspark_zbk.clients import close_clients, task_client
from pyspark_zbk.ledgers_view import LedgersReader
from pyspark_zbk.options import Options
from pyspark_zbk.reader import SlicesPartition, ZbkReader
from pyspark_zbk.source import DefaultSource
from pyspark_zbk.writer import ZbkWriter
from zbk.cluster.local import LocalCluster

SCHEMA = StructType([StructField("id", LongType()), StructField("payload", BinaryType())])
ARROW = pa.schema([("id", pa.int64()), ("payload", pa.binary())])

PLAIN_TYPES = {
    "ColumnStats", "Connection", "DataLedger", "DefaultSource", "LedgerShape", "LedgerWritten",
    "LedgersPartition", "LedgersReader", "LoadKind", "LoadTicket", "Pinned", "Slice",
    "SlicesPartition", "StructField", "StructType", "LongType", "BinaryType", "ZbkReader",
    "ZbkWriter", "CaseInsensitiveDict",
}  # fmt: skip


@pytest.fixture
def options(cluster: LocalCluster) -> Iterator[dict[str, str]]:
    yield {"metadata": cluster.metadata_uri, "dataset": f"tasks-{uuid4().hex}"}
    close_clients()


def _batches(count: int, row_count: int, size: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        ids = pa.array(range(number * row_count, (number + 1) * row_count), pa.int64())
        payload = pa.array([bytes(size)] * row_count)
        yield pa.RecordBatch.from_arrays([ids, payload], schema=ARROW)


class _Watching(pickle.Pickler):
    """A pickler that keeps the names of the types that it meets, but for plain ones."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.met: set[str] = set()

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - as pickle has it
        if not isinstance(value, type) and not callable(value):
            self.met.add(type(value).__name__)
        return NotImplemented


def _sent(value: object) -> Any:  # noqa: ANN401 - the same type
    """Return what arrives in another process; fail if more than plain values would travel."""
    file = io.BytesIO()
    pickler = _Watching(file)
    pickler.dump(value)
    assert pickler.met <= PLAIN_TYPES
    return pickle.loads(file.getvalue())  # noqa: S301 - our own bytes


def test_all_that_spark_pickles_is_plain_values(options: dict[str, str]) -> None:
    writer = _sent(ZbkWriter(Options(options), SCHEMA, overwrite=False))
    message = _sent(writer.write(_batches(2, 50, 10)))
    writer.commit([message, None])
    source = DefaultSource(options)
    assert source.schema() == SCHEMA
    source = _sent(source)
    reader = source.reader(SCHEMA)
    assert isinstance(reader, ZbkReader)
    in_task = _sent(reader)
    assert in_task._ledgers == ()
    rows = [b.num_rows for p in reader.partitions() for b in in_task.read(_sent(p))]
    assert sum(rows) == 100
    view = LedgersReader(source._snapshot(), StructType([]))
    assert _sent(view)._rows == []


def test_clients_are_kept_from_task_to_task_and_dropped_after_a_failure(
    options: dict[str, str],
) -> None:
    writer = ZbkWriter(Options(options), SCHEMA, overwrite=False)
    writer.commit([writer.write(_batches(1, 10, 10))])
    reader = DefaultSource(options).reader(SCHEMA)
    assert isinstance(reader, ZbkReader)
    (partition,) = reader.partitions()
    assert [b.num_rows for b in reader.read(partition)] == [10]
    kept = task_client(reader._connection)
    assert isinstance(partition, SlicesPartition)
    kept.delete_ledger(partition.slices[0].ledger_id)
    with pytest.raises(zbk.NoSuchLedgerError):
        list(reader.read(partition))
    with pytest.raises(zbk.ClientClosedError):
        kept.check_usable()


@pytest.mark.parametrize("entry_size_max", [128 * 1024, 1024 * 1024])
def test_the_memory_of_a_task_is_a_few_entries(
    options: dict[str, str], entry_size_max: int
) -> None:
    """Beside the batch that Spark has handed over, which is as large as Spark makes it."""
    sizes = {"entryBytes": str(entry_size_max)}
    writer = ZbkWriter(Options(options | sizes), SCHEMA, overwrite=False)
    writer.write(_batches(1, 10, 10))  # modules and a client are there
    tracemalloc.start()
    message = writer.write(_batches(40, 1000, 1000))  # 40 MB
    _, written_peak = tracemalloc.get_traced_memory()
    writer.commit([message])
    reader = DefaultSource(options).reader(SCHEMA)
    assert isinstance(reader, ZbkReader)
    tracemalloc.reset_peak()
    for partition in reader.partitions():
        for _ in reader.read(partition):
            pass
    _, read_peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert message.ledger is not None
    assert message.ledger.size > 40_000_000
    bound = 16 * max(entry_size_max, 1024 * 1024)  # windows and read-ahead are at least 1 MiB each
    assert max(written_peak, read_peak) < bound


def test_an_attempt_that_fails_half_way_leaves_its_ledger_closed(options: dict[str, str]) -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        yield from _batches(1, 10, 10)
        raise OSError("the input is gone")

    writer = ZbkWriter(Options(options), SCHEMA, overwrite=False)
    with pytest.raises(OSError, match="gone"):
        writer.write(fails())
    client = task_client(writer._connection)
    load_id = writer._ticket.load_id.encode()
    mine = [
        metadata
        for metadata in map(client.get_ledger_metadata, client.list_ledgers())
        if metadata.custom_metadata.get("zbk.load") == load_id
    ]
    assert [metadata.is_closed for metadata in mine] == [True]
    writer.abort([])
    assert mine[0].ledger_id not in set(client.list_ledgers())
