"""Measure bulk load and reading from Spark beside Spark's own uncompressed Parquet files.

    python benchmarks/spark_bulk_load.py [--rows 5000000] [--rounds 3] [--json]

One session, ``local[2]``; its input is cached in memory: rows of a long, a text of 16 bytes, a
double and a binary of 100 bytes. Each round writes and reads in turn: Parquet, zbk with three
copies (3/3/2, VD), zbk with one copy, both with Spark told that rows are small
(``session.rows_at_most``), and three copies with Spark's defaults; and fewer rows in small entries,
VD and PD, on the disk itself and with fsyncs that take 10 ms longer. Every zbk write has its own
cluster on the same cores. Machines drift, so a ratio is taken within its round, and the medians
count.

The *floor* of a folder is one process that writes as many bytes as three copies have to three files
and syncs each: no load of three copies can be faster there.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

import zbk
from benchmarks.slow_bookie import slow_programs
from pyspark_zbk import session
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

PARTITION_COUNT: Final = 8
WARM_UP_ROW_COUNT: Final = 200_000
SMALL_SHARE: Final = 4
"""The comparison of VD and PD has a quarter of the rows."""

SMALL_ENTRY: Final = "4k"
CHUNK_SIZE: Final = 4 * 1024 * 1024

COLUMNS: Final = (
    "id",
    "substr(sha2(string(id), 256), 1, 16) key",
    "cast(xxhash64(id) as double) value",
    "unhex(substr(concat(sha2(string(id), 512), sha2(string(-id), 512)), 1, 200)) payload",
)

ROW_SIZE_MAX: Final = 1024
SLOW_SYNC_MS: Final = 10
"""Additional time of an fsync on the second disk, as on a rotating or remote one."""


class Variant(msgspec.Struct, frozen=True):
    """How a frame is written."""

    options: Mapping[str, str] = {}
    row_size_max: int | None = ROW_SIZE_MAX  # that Spark is told
    sync_delay_ms: int = 0  # additional time of the bookies' fsyncs


VARIANTS: Final = {
    "zbk 3/3/2": Variant(),
    "zbk 1/1/1": Variant({"writeQuorumSize": "1"}),
    "zbk 3/3/2, rows of any size": Variant(row_size_max=None),
}

_VD: Final = {"entryBytes": SMALL_ENTRY}
_PD: Final = {**_VD, "ledgerType": "PD_JOURNAL"}
SMALL_VARIANTS: Final = {
    "VD": Variant(_VD),
    "PD": Variant(_PD),
    "VD, slow fsyncs": Variant(_VD, sync_delay_ms=SLOW_SYNC_MS),
    "PD, slow fsyncs": Variant(_PD, sync_delay_ms=SLOW_SYNC_MS),
}

Timings = dict[str, list[float]]


class Bench:
    """Runs the rounds and keeps their times, in seconds by name."""

    def __init__(self, spark: SparkSession, folder: Path, row_count: int) -> None:
        self._spark = spark
        self._folder = folder
        self.row_count = row_count
        self.small_row_count = max(1, row_count // SMALL_SHARE)
        self.frame = self._cached(row_count)
        self.small_frame = self._cached(self.small_row_count)
        self.timings: Timings = {}

    def warm_up(self) -> None:
        """Start the workers, and let the JVM compile what it will run."""
        few = self.frame.limit(WARM_UP_ROW_COUNT).repartition(PARTITION_COUNT)
        self._parquet(few)
        for variant in VARIANTS.values():
            self._zbk("zbk", few, variant)
        self.timings.clear()

    def round(self) -> None:
        """Measure everything once."""
        self._parquet(self.frame)
        sizes = [self._zbk(name, self.frame, variant) for name, variant in VARIANTS.items()]
        self._write_floor(3 * sizes[0])
        for name, variant in SMALL_VARIANTS.items():
            self._zbk(name, self.small_frame, variant, reads=False)

    def _write_floor(self, size: int) -> None:
        """Measure the write and the fsync of ``size`` bytes, in three files."""
        chunk = os.urandom(CHUNK_SIZE)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder, ExitStack() as opened:
            paths = [Path(folder, str(number)) for number in range(3)]
            files = [opened.enter_context(path.open("wb", buffering=0)) for path in paths]

            def write() -> None:
                for _ in range(0, size, len(files) * CHUNK_SIZE):
                    for file in files:
                        file.write(chunk)
                for file in files:
                    os.fsync(file.fileno())

            self._measure("floor write", write)

    def _cached(self, row_count: int) -> DataFrame:
        frame = self._spark.range(0, row_count, 1, PARTITION_COUNT).selectExpr(*COLUMNS)
        frame = frame.persist(StorageLevel.MEMORY_ONLY)
        assert frame.count() == row_count, "all rows are cached before the measurement"
        return frame

    def _parquet(self, frame: DataFrame) -> None:
        path = str(self._folder / "parquet")
        writer = frame.write.option("compression", "none").mode("overwrite")
        self._measure("parquet write", lambda: writer.parquet(path))
        self._measure("parquet read", lambda: _drain(self._spark.read.parquet(path)))
        shutil.rmtree(path)

    def _zbk(self, name: str, frame: DataFrame, variant: Variant, *, reads: bool = True) -> int:
        """Measure a load; return the bytes of one copy."""
        with self._cluster(variant.sync_delay_ms) as metadata:
            writer = frame.write.format("zbk").option("metadata", metadata).mode("append")
            with session.rows_at_most(self._spark, variant.row_size_max):
                writer = writer.options(**variant.options)
                self._measure(f"{name} write", lambda: writer.save("rows"))
            if reads:
                reader = self._spark.read.format("zbk").option("metadata", metadata)
                self._measure(f"{name} read", lambda: _drain(reader.load("rows")))
            with zbk.connect(metadata) as client:
                version = zbk.DataSets(client).read("rows").version
            assert version.row_count == frame.count(), f"{name} has {version.row_count} rows"
            return version.size

    @contextmanager
    def _cluster(self, sync_delay_ms: int) -> Iterator[str]:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        programs = slow_programs(0, sync_delay_ms)
        try:
            with LocalCluster(folder / "cluster", bookie_programs=programs) as cluster:
                yield cluster.metadata_uri
        finally:
            shutil.rmtree(folder)

    def _measure(self, name: str, action: Callable[[], None]) -> None:
        began_s = monotonic_s()
        action()
        self.timings.setdefault(name, []).append(monotonic_s() - began_s)


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def ratio(timings: Timings, one: str, other: str) -> float:
    """Return the median of the ratios of two timings, round by round."""
    return median(a / b for a, b in zip(timings[one], timings[other], strict=True))


def table(bench: Bench) -> list[str]:
    """Return the result as lines of Markdown."""
    timings = bench.timings
    lines = [
        f"| {bench.row_count:,} rows | write s | to Parquet | read s | to Parquet |",
        "|---|---|---|---|---|",
    ]
    for name in ("parquet", *VARIANTS):
        write, read = f"{name} write", f"{name} read"
        lines.append(
            f"| {name} | {median(timings[write]):.2f} "
            f"| {ratio(timings, write, 'parquet write'):.2f} "
            f"| {median(timings[read]):.2f} | {ratio(timings, read, 'parquet read'):.2f} |"
        )
    floor_s = median(timings["floor write"])
    times = ratio(timings, "zbk 3/3/2 write", "floor write")
    lines += ["", f"Three copies, written and synced by one process: {floor_s:.2f} s."]
    lines += [f"A load 3/3/2 takes {times:.2f} times as long."]
    lines += ["", f"| {bench.small_row_count:,} rows, entries of {SMALL_ENTRY} | write s |"]
    lines += ["|---|---|"]
    lines += [f"| {name} | {median(timings[f'{name} write']):.2f} |" for name in SMALL_VARIANTS]
    for disk in ("", ", slow fsyncs"):
        times = ratio(timings, f"PD{disk} write", f"VD{disk} write")
        lines += ["", f"PD takes {times:.2f} times as long as VD{disk}."]
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="all timings, for machines")
    parser.add_argument(
        "--folder", help="folder for clusters and files; by default a temporary one"
    )
    options = parser.parse_args()
    settings = {"spark.driver.memory": "6g"}
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        session.start("zbk bulk load", master="local[2]", settings=settings) as spark,
    ):
        bench = Bench(spark, Path(folder), options.rows)
        bench.warm_up()
        for number in range(options.rounds):
            bench.round()
            last = {name: round(values[-1], 2) for name, values in bench.timings.items()}
            print(f"round {number + 1}: {last}", file=sys.stderr, flush=True)
        print(json.dumps(bench.timings) if options.json else "\n".join(table(bench)))


if __name__ == "__main__":
    main()
