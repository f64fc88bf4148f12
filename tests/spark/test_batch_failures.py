"""Whatever fails: readers see all of a load or nothing, and what is left over is collected."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import zbk
from tests.support.machine import patient_s
from tests.support.spark import HOUR_MS, LONG_AFTER_MS, DataSetName, error_of, in_thread, marks_in
from tests.support.spark_python import run_driver
from tests.support.spark_sources import SOURCES, mark
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

ROOT = Path(__file__).parents[2]
ROW_COUNT = 1000
WAIT_S = 60
DRIVER_TIMEOUT_S = patient_s(100)


@pytest.fixture
def marks(marks_folder: Path) -> Path:
    """The folder in which defective sources write down what they did: empty."""
    for path in marks_folder.iterdir():
        path.unlink()
    return marks_folder


@pytest.fixture
def target(marks: Path, spark: SparkSession, events: DataSetName) -> DataSetName:
    """A data set with one version of ten rows, and the defective formats."""
    assert marks_in(marks) == []
    for source in SOURCES:
        spark.dataSource.register(source)
    events.write(spark.range(10))
    return events


def _leaves_nothing(target: DataSetName) -> None:
    assert target.row_count() == 10
    assert target.read().count() == 10
    assert target.ledger_ids() == target.listed_ids()
    assert target.collect(LONG_AFTER_MS) == 0


def test_attempts_that_failed_are_not_seen_and_their_ledgers_are_collected(
    target: DataSetName, marks: Path
) -> None:
    target.by("FirstAttemptFails").write(target.spark.range(0, ROW_COUNT, 1, 2))
    assert len(marks_in(marks)) == 4
    assert target.read().count() == 10 + ROW_COUNT
    assert len(target.ledger_ids() - target.listed_ids()) <= 2
    target.collect(LONG_AFTER_MS)
    _only_listed_are_left(target)
    assert target.read().count() == 10 + ROW_COUNT


def test_a_task_that_fails_four_times_aborts_the_load_and_all_its_ledgers_go(
    target: DataSetName, marks: Path
) -> None:
    text = error_of(
        lambda: target.by("OnePartitionFails").write(target.spark.range(0, ROW_COUNT, 1, 2))
    )
    assert "InjectedError" in text
    assert len(marks_in(marks)) == 5  # partition 0 once, partition 1 four times
    _leaves_nothing(target)


def test_a_job_that_is_cancelled_leaves_nothing(target: DataSetName, marks: Path) -> None:
    load = in_thread(target.spark, lambda: _never_ends(target))
    wait_until(lambda: len(marks_in(marks)) == 2, WAIT_S, "both tasks wait")
    target.spark.sparkContext.cancelAllJobs()
    assert "cancel" in error_of(lambda: load.result(WAIT_S))
    target.collect(LONG_AFTER_MS)  # of a task that was killed while it wrote
    _leaves_nothing(target)


def test_an_abort_after_a_commit_whose_reply_was_lost_deletes_nothing(
    target: DataSetName, marks: Path
) -> None:
    text = error_of(lambda: target.by("CommitReplyIsLost").write(target.spark.range(ROW_COUNT)))
    assert "InjectedError" in text
    assert [mark.partition("-")[0] for mark in marks_in(marks)] == ["abort"]
    assert target.read().count() == 10 + ROW_COUNT
    target.collect(LONG_AFTER_MS)
    assert target.read().count() == 10 + ROW_COUNT


def test_a_commit_whose_answer_was_lost_is_asked_for_again(
    target: DataSetName, marks: Path
) -> None:
    target.by("CommitIsAnsweredLate").write(target.spark.range(ROW_COUNT))
    assert len(marks_in(marks)) == 2
    assert target.version_count() == 2
    assert target.read().count() == 10 + ROW_COUNT
    target.collect(LONG_AFTER_MS)
    _only_listed_are_left(target)


def test_a_live_load_is_not_collected(target: DataSetName, marks: Path) -> None:
    load = in_thread(target.spark, lambda: _never_ends(target))
    wait_until(lambda: len(marks_in(marks)) == 2, WAIT_S, "both tasks wait")
    before = target.ledger_ids()
    assert len(before - target.listed_ids()) == 2
    assert target.collect(HOUR_MS) == 0
    assert target.ledger_ids() == before
    target.spark.sparkContext.cancelAllJobs()
    assert "cancel" in error_of(lambda: load.result(WAIT_S))


def _never_ends(target: DataSetName) -> None:
    target.by("SlowTasks").write(target.spark.range(0, ROW_COUNT, 1, 2))


def test_of_two_overwrites_at_once_one_is_a_conflict_and_appends_both_succeed(
    target: DataSetName,
) -> None:
    with target.client() as client:
        tickets = [
            zbk.DataSets(client).begin(target.name, kind)
            for kind in (zbk.LoadKind.OVERWRITE, zbk.LoadKind.APPEND)
        ]
        target.write(target.spark.range(3), mode="overwrite")
        schema = zbk.DataSets(client).read(target.name).schema
        with pytest.raises(zbk.DataSetConflictError, match="run it again"):
            zbk.DataSets(client).commit(tickets[0], schema, [])
        zbk.DataSets(client).commit(tickets[1], schema, [])
    frames = [target.spark.range(n * 100, n * 100 + 100) for n in (1, 2)]
    loads = [in_thread(target.spark, partial(target.write, frame)) for frame in frames]
    for load in loads:
        load.result(WAIT_S)
    assert sorted(row.id for row in target.read().collect()) == [*range(3), *range(100, 300)]


def test_a_bookie_killed_during_a_load_costs_nothing_or_the_load_fails_whole(
    spark: SparkSession, marks: Path, tmp_path: Path
) -> None:
    for source in SOURCES:
        spark.dataSource.register(source)
    assert marks_in(marks) == []
    with LocalCluster(tmp_path / "cluster") as cluster:
        events = DataSetName(spark, cluster.metadata_uri, "events")
        events.write(spark.range(10))
        frame = spark.range(0, ROW_COUNT, 1, 2)
        load = in_thread(spark, lambda: events.by("WaitsForAnotherMark").write(frame))
        wait_until(lambda: len(marks_in(marks)) == 2, WAIT_S, "both ledgers are written to")
        cluster.kill(0)
        mark("go")
        load.result(WAIT_S)
        assert events.read().count() == 10 + ROW_COUNT


DRIVER_ENDS = [
    pytest.param("DriverKilledDuringTasks", 0, marks=pytest.mark.soak),
    ("DriverKilledInCommit", 0),
    pytest.param("DriverKilledBeforeTasks", 0, marks=pytest.mark.soak),
    pytest.param("DriverKilledBeforeCommit", 0, marks=pytest.mark.soak),
    pytest.param("DriverKilledAfterCommit", ROW_COUNT, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("source", "visible_count"), DRIVER_ENDS)
def test_a_driver_that_is_killed_leaves_all_or_nothing(
    target: DataSetName, quick_python: Path, source: str, visible_count: int
) -> None:
    arguments = [target.metadata, target.name, source, "append", str(ROW_COUNT), "1h"]
    done = run_driver("tests.support.spark_driver", arguments, quick_python)
    assert done.returncode == -9, done.stderr.decode()
    assert target.row_count() == 10 + visible_count
    assert target.read().count() == 10 + visible_count
    target.collect()
    assert target.read().count() == 10 + visible_count
    target.collect(LONG_AFTER_MS)
    _only_listed_are_left(target)


def _only_listed_are_left(target: DataSetName) -> None:
    with target.client() as client:
        data_sets = zbk.DataSets(client)
        listed = set()
        for version in data_sets.history(target.name).versions:
            listed |= set(version.manifests)
            found = data_sets.read(target.name, version.version)
            listed |= {ledger.ledger_id for ledger in found.ledgers}
    assert target.ledger_ids() == listed
