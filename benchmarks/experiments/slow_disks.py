"""Experiment: appends to a cluster in which the fsyncs of one bookie, or of all, take longer.

Words: the *backlog* is what the client holds for its slowest bookie: bytes of batches that some
live bookie has not answered, of all ledgers of the load. It rises and falls within less than a
second, so it is read often.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, Self

from benchmarks.slow_bookie import slow_programs
from zbk.bench.load import WriteLoad
from zbk.bench.write_load import WriteResult, run_write
from zbk.client.api import connect
from zbk.cluster.local import LocalCluster

BACKLOG_INTERVAL_S: Final = 0.02


class Writer(Protocol):
    """The part of a load's writer that has a backlog."""

    @property
    def unanswered_size(self) -> int:
        """Bytes that some live bookie has not answered."""


class Backlog:
    """Reads the backlog of writers in its own thread, from ``watch`` to the end of the block."""

    def __init__(self) -> None:
        self.size_max = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, writers: Sequence[Writer]) -> None:
        """Start to read the backlog of ``writers``."""
        self._thread = threading.Thread(target=self._run, args=(writers,), name="zbk-backlog")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, writers: Sequence[Writer]) -> None:
        is_last = False
        while not is_last:
            is_last = self._stop.wait(BACKLOG_INTERVAL_S)
            self.size_max = max(self.size_max, sum(writer.unanswered_size for writer in writers))


def run_slow_disks(
    folder: Path,
    load: WriteLoad,
    *,
    slow_bookie_ms: int,
    slow_disks_ms: int,
    use_zookeeper: bool,
) -> tuple[WriteResult, int]:
    """Write ``load`` to a temporary cluster; return the figures, and the largest backlog in bytes.

    Raises:
        ZbkError: a writer failed.
    """
    cluster = LocalCluster(
        folder / "cluster",
        use_zookeeper=use_zookeeper,
        bookie_programs=slow_programs(slow_bookie_ms, slow_disks_ms),
    )
    with cluster, connect(cluster.metadata_uri) as client, Backlog() as backlog:
        result = run_write(client, load, before_start=backlog.watch)
    return result, backlog.size_max
