"""Streams as tests see them: logs that grow, queries over them, and sinks that go wrong on purpose.

A sink that fails does so in one micro-batch, at one place, and once for each checkpoint: that it
did is written down beside the checkpoint. Which place is said by the name of the format. Spark's
workers import this module by its name.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from pyspark_zbk.options import Options, Use
from pyspark_zbk.source import DefaultSource
from pyspark_zbk.stream_writer import BatchWritten, MicroBatch, ZbkStreamWriter
from tests.support.spark_sources import InjectedError, kill_the_driver

FAILING_BATCH: Final = 1


class FailingWriter(ZbkStreamWriter):
    """Does as its subclass says in the micro-batch that is to fail."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._mark = Path(options.text("checkpointLocation") + ".failed")

    def is_due(self, number: int) -> bool:
        """Return whether to fail; for a task this holds until the query starts again."""
        return number == FAILING_BATCH and not self._mark.exists()

    def fail(self) -> None:
        """Fail, once."""
        self._mark.touch()
        raise InjectedError


class CommitFails(FailingWriter):
    """The commit fails before it is made."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self.is_due(batchId):
            self.fail()
        super().commit(messages, batchId)


class CommitReplyIsLost(FailingWriter):
    """The commit is made, and Spark is told that it is not."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if self.is_due(batchId):
            self.fail()


class TasksFail(FailingWriter):
    """Every attempt fails when its ledger is closed: no message says what there is to abort."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchWritten:
        written = super().write(iterator)
        if self.is_due(written.batch.number):
            raise InjectedError
        return written

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._mark.touch()
        super().abort(messages, batchId)


class KilledInTask(FailingWriter):
    """The driver is killed while a task has half of its rows."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchWritten:
        is_due = self.is_due(MicroBatch.of_this_task().number)

        def deadly() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                yield batch
                if is_due:
                    self._mark.touch()
                    kill_the_driver()

        return super().write(deadly())


class KilledBeforeCommit(FailingWriter):
    """The driver is killed when all ledgers are closed."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self.is_due(batchId):
            self._mark.touch()
            kill_the_driver()
        super().commit(messages, batchId)


class KilledAfterCommit(FailingWriter):
    """The driver is killed when the version is there, before Spark writes down that it is."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if self.is_due(batchId):
            self._mark.touch()
            kill_the_driver()


class _FailingSource(DefaultSource):
    writer_type: type[ZbkStreamWriter]

    @classmethod
    def name(cls) -> str:
        return cls.writer_type.__name__

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = self._options_for(Use.WRITE_STREAM)
        return self.writer_type(options, schema, overwrite=overwrite)


_WRITERS: Final[tuple[type[ZbkStreamWriter], ...]] = (
    CommitFails, CommitReplyIsLost, TasksFail, KilledInTask, KilledBeforeCommit, KilledAfterCommit,
)  # fmt: skip
SINKS: Final[tuple[type[DefaultSource], ...]] = tuple(
    type(f"{one.__name__}Sink", (_FailingSource,), {"writer_type": one, "__module__": __name__})
    for one in _WRITERS
)
globals().update({sink.__name__: sink for sink in SINKS})  # to be found when unpickled


def rows_of_log(spark: SparkSession, metadata: str, log: str, **options: object) -> DataFrame:
    """Return a log as a stream, from its first entry on."""
    reader = spark.readStream.format("zbk").option("metadata", metadata).option("log", log)
    given = {"startingOffsets": "earliest"} | {key: str(value) for key, value in options.items()}
    return reader.options(**given).load()


def start(
    frame: DataFrame,
    metadata: str,
    data_set: str,
    checkpoint: Path,
    *,
    sink: str = "zbk",
    mode: str = "append",
    is_endless: bool = False,
    every: str | None = None,
) -> StreamingQuery:
    """Start a query into a data set: for what is there now, or without an end.

    An endless query starts a micro-batch after the other, or at this interval.
    """
    writer = frame.writeStream.format(sink).option("metadata", metadata).outputMode(mode)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if not is_endless:
        writer = writer.trigger(availableNow=True)
    elif every is not None:
        writer = writer.trigger(processingTime=every)
    return writer.start(data_set)


def run(
    frame: DataFrame, metadata: str, data_set: str, checkpoint: Path, *, sink: str = "zbk"
) -> list[int]:
    """Run a query over what is there now; return the rows of each micro-batch that had some."""
    query = start(frame, metadata, data_set, checkpoint, sink=sink)
    query.awaitTermination()
    return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
