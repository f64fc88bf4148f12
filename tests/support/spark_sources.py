"""Sources that go wrong on purpose: format ``zbk``, and a defect at one place of a load.

Spark's workers import this module by its name. Which defect is meant is said by the name of the
format; what is counted is written down as empty files below ``$ZBK_TEST_MARKS``.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import zbk
from pyspark_zbk.options import Use
from pyspark_zbk.source import DefaultSource
from pyspark_zbk.writer import LedgerWritten, ZbkWriter
from tests.support.waiting import wait_until

MARKS: Final = "ZBK_TEST_MARKS"
STAND_IN: Final = "ZBK_TEST_STAND_IN"
"""The process that Spark has started, where ``tests.support.spark_program`` stands for a worker."""


class InjectedError(Exception):
    """What a defect raises."""


def mark(what: str) -> None:
    """Write down that something happened."""
    folder = os.environ.get(MARKS)
    if folder:
        Path(folder, f"{what}-{uuid4().hex}").touch()


def kill_the_driver() -> None:
    """Kill the JVM above this worker and the driver's Python above that, and this worker."""
    pid, victims = int(os.environ.get(STAND_IN, os.getpid())), []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            victims.append(pid)
            victims.append(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]))
            break
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class FirstAttemptFails(ZbkWriter):
    """Each partition's first attempt fails when its ledger is closed and its answer is not sent."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LedgerWritten:
        written = super().write(iterator)
        context = TaskContext.get()
        assert context is not None, "in a task"
        mark("attempt")
        if context.attemptNumber() == 0:
            raise InjectedError
        return written


class OnePartitionFails(ZbkWriter):
    """Partition 1 fails half-way, each time."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LedgerWritten:
        context = TaskContext.get()
        assert context is not None, "in a task"
        mark("attempt")
        return super().write(_fails_after_one(iterator) if context.partitionId() else iterator)


class CommitReplyIsLost(ZbkWriter):
    """The load is committed, and Spark is told that it is not."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        super().commit(messages)
        raise InjectedError

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        mark("abort")
        super().abort(messages)


class CommitIsAnsweredLate(ZbkWriter):
    """Each call of the driver is made, and its first answer is lost."""

    def _insist(self, call: Callable[[zbk.DataSets], object]) -> None:
        is_first = True

        def loses_the_first_answer(data_sets: zbk.DataSets) -> None:
            nonlocal is_first
            call(data_sets)
            mark("call")
            if is_first:
                is_first = False
                raise zbk.MetadataUnavailableError("the store", "the answer was lost")

        super()._insist(loses_the_first_answer)


class SlowTasks(ZbkWriter):
    """Tasks that wait until they are killed."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LedgerWritten:
        return super().write(_waits(iterator))


class WaitsForAnotherMark(ZbkWriter):
    """Tasks that go on when somebody says so."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LedgerWritten:
        return super().write(_waits_for_go(iterator))


class DriverKilledBeforeTasks(ZbkWriter):
    """The load is begun when the driver dies."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as it comes
        super().__init__(*args, **kwargs)
        kill_the_driver()


class DriverKilledDuringTasks(ZbkWriter):
    """A task is half-way."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LedgerWritten:
        def deadly() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                yield batch
                kill_the_driver()

        return super().write(deadly())


class DriverKilledBeforeCommit(ZbkWriter):
    """All ledgers are synced and closed."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        del messages
        kill_the_driver()


class DriverKilledInCommit(ZbkWriter):
    """The manifest is written, and nobody knows of it."""

    def data_sets(self, client: zbk.Client) -> zbk.DataSets:
        return zbk.DataSets(_DeadlyClient(client), self._connection.password())


class DriverKilledAfterCommit(ZbkWriter):
    """The load is committed, and Spark does not hear of it."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        super().commit(messages)
        kill_the_driver()


class _DeadlyClient:
    """A client whose data sets can be anything but committed."""

    def __init__(self, client: zbk.Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the client has
        return getattr(self._client, name)

    @property
    def data_set_store(self) -> Any:  # noqa: ANN401 - a store, nearly
        return _DeadlyStore(self._client.data_set_store)


class _DeadlyStore:
    def __init__(self, store: Any) -> None:  # noqa: ANN401 - any store
        self._store = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        return getattr(self._store, name)

    def commit(self, *_args: object, **_kwargs: object) -> None:
        kill_the_driver()


DEFECTS: Final[tuple[type[ZbkWriter], ...]] = (
    FirstAttemptFails,
    OnePartitionFails,
    CommitReplyIsLost,
    CommitIsAnsweredLate,
    SlowTasks,
    WaitsForAnotherMark,
    DriverKilledBeforeTasks,
    DriverKilledDuringTasks,
    DriverKilledBeforeCommit,
    DriverKilledInCommit,
    DriverKilledAfterCommit,
)


class _DefectiveSource(DefaultSource):
    """Format ``zbk`` with a writer of ours; each defect is a subclass."""

    writer_type: type[ZbkWriter]

    @classmethod
    def name(cls) -> str:
        return cls.writer_type.__name__

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self.writer_type(self._options_for(Use.WRITE), schema, overwrite=overwrite)


SOURCES: Final[tuple[type[DefaultSource], ...]] = tuple(
    type(f"{one.__name__}Source", (_DefectiveSource,), {"writer_type": one, "__module__": __name__})
    for one in DEFECTS
)
globals().update({source.__name__: source for source in SOURCES})  # to be found when unpickled


def _fails_after_one(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield next(iterator)
    raise InjectedError


def _waits(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in iterator:
        yield batch
        mark("waiting")
        signal.pause()


def _waits_for_go(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    folder = Path(os.environ[MARKS])
    for batch in iterator:
        half = batch.num_rows // 2
        yield batch.slice(0, half)
        mark("waiting")
        wait_until(lambda: any(folder.glob("go-*")), 60, "somebody says go")
        yield batch.slice(half)
