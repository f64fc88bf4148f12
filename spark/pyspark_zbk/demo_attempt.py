"""A frame with one task attempt that fails half way through: for ``zbk demo spark``.

A function that passes every row filters the frame. In the first attempt of partition 0 it stops
after a few batches, leaves a mark in a folder, waits for another mark there, and raises. So the
driver of the load can inspect the data set while the attempt has written and not yet failed.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

T = TypeVar("T")

PASSED_COUNT: Final = 3  # batches
LOOK_INTERVAL_S: Final = 0.05
WAIT_S: Final = 10.0
"""Time that the attempt waits for the inspection before it fails anyway."""


class DemoFailure(Exception):  # noqa: N818 - a failure on purpose
    """The error that the attempt raises."""


class FailingAttempt:
    """Makes a frame fail once, in step with its load. All workers see ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._written = folder / "attempt-has-written"
        self._looked = folder / "story-has-looked"

    def of(self, frame: "DataFrame") -> "DataFrame":
        """Return a frame with the same rows and one task attempt that fails."""
        import pyarrow as pa
        from pyspark.sql import functions as sf
        from pyspark.sql.pandas.functions import arrow_udf

        def pass_all(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:  # Spark reads the types
            return self._pass_all(batches)

        # a number for each row, not a boolean: full batches then go through Python's buffers
        passes = arrow_udf(pass_all, "long")  # type: ignore[call-overload] # by the hints
        passes = passes.asNondeterministic()
        return frame.where(passes(sf.spark_partition_id().cast("long")) >= 0)

    def _pass_all(self, batches: "Iterator[pa.Array]") -> "Iterator[pa.Array]":
        """Run in a task; yield the input."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "in a task"
        if context.partitionId() or context.attemptNumber():
            yield from batches
            return
        yield from islice(batches, PASSED_COUNT)
        self._written.touch()
        deadline_s = time.monotonic() + WAIT_S
        while not self._looked.exists() and time.monotonic() < deadline_s:
            time.sleep(LOOK_INTERVAL_S)
        raise DemoFailure("the first attempt of partition 0 fails, as this demo wants it to")

    def in_step(self, load: Callable[[], None], look: Callable[[], T]) -> T | None:
        """Run ``load``, and ``look`` in another thread while the attempt waits; return its result.

        Returns ``None`` if the load ended before. The load stays in this thread, to which Spark
        binds its session.
        """
        is_over = Event()
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(self._look_once_written, look, is_over)
            try:
                load()
            finally:
                is_over.set()
            return looking.result()

    def _look_once_written(self, look: Callable[[], T], is_over: Event) -> T | None:
        while not self._written.exists():
            if is_over.wait(LOOK_INTERVAL_S):
                return None
        try:
            return look()
        finally:
            self._looked.touch()
