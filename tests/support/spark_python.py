"""A Python for the Java of Spark: its processes are forked from one that has imported pyspark.

Spark starts a Python for each kind of work (finding sources, planning, writing, committing, tasks,
streams), which forks workers before it has imported what they need. First on its path is a zip of
pyspark without compiled modules, so each of these processes compiles pyspark again. Some 200 of
them took half of the time of all tests of Spark. Here they are real processes with their own id,
files and environment, and share the imports only.

The parent of such a process is the starter; the process that Spark has started stands for it, and
has the Java as its parent. Format ``cold`` has an ordinary Python with that zip, which shows that
workers lack no import.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_zbk.source import DefaultSource
from tests.support.machine import patient_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENT: Final = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "spark")]),
    "PYTHONHASHSEED": "0",  # as Spark sets it
    "OPENBLAS_NUM_THREADS": "1",  # a thread would be lost in a fork
}
"""What the starter has, and what a process that Spark starts cannot set for itself any more."""


DRIVER_TIMEOUT_S: Final = patient_s(100)


@contextmanager
def warm_python(folder: Path) -> Iterator[Path]:
    """Make a ``python`` in a folder that starts workers of Spark warm, as long as this runs."""
    program = Path(__file__).with_name("spark_program.py").read_text("utf-8")
    first, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with first, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("")  # the system chooses an address that is no file
        listener.listen()
        address = listener.getsockname()[1:].decode()
        files = [theirs.fileno(), listener.fileno()]
        starter = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_starter", *map(str, files)],
            pass_fds=files,
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
        )
        theirs.close()
        python = folder / "python"
        given = program.replace('STARTER = ""', f'STARTER = "{address}"')
        python.write_text(f"#!{sys.executable} -IS\n{given}", "utf-8")
        python.chmod(0o755)
        yield python
    starter.wait()


def run_driver(
    module: str, arguments: Sequence[str], python: Path
) -> "subprocess.CompletedProcess[bytes]":
    """Run a driver of its own process, whose workers have this Python."""
    return subprocess.run(
        [str(python), "-m", module, *arguments],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
        timeout=DRIVER_TIMEOUT_S,
        check=False,
    )


class ColdSource(DefaultSource):
    """Format ``zbk`` in workers that have imported nothing of it before they need it."""

    @classmethod
    def name(cls) -> str:
        return "cold"

    def reader(self, schema: "StructType") -> "DataSourceReader":
        assert "pyspark_zbk.reader" not in sys.modules, "the worker is warm"
        return super().reader(schema)


def register_cold(spark: "SparkSession") -> None:
    """Register format ``cold``, for whose workers Spark starts a Python of its own."""
    context = spark.sparkContext
    warm, context.pythonExec = context.pythonExec, sys.executable
    try:
        spark.dataSource.register(ColdSource)
    finally:
        context.pythonExec = warm
