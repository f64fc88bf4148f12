"""A stream whose sink or driver fails goes on from its checkpoint, and each entry is there once."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

import zbk
from tests.support.spark import DataSetName, error_of
from tests.support.spark_python import run_driver
from tests.support.spark_streams import SINKS, rows_of_log, run
from zbk.cluster.local import LocalCluster

ENTRY_COUNT = 300
BATCH_COUNT = 3


def filled_log(uri: str) -> str:
    """Make a log of two ledgers; return its name."""
    with zbk.connect(uri) as client, client.open_log(f"log-{uuid4().hex[:8]}") as log:
        for first in (0, ENTRY_COUNT // 2):
            numbers = range(first, first + ENTRY_COUNT // 2)
            log.append_many([str(number).encode() for number in numbers]).result()
            log.roll()
    return log.name


def is_whole(target: DataSetName) -> None:
    """Check that each entry is there once, and no ledger that nobody wants."""
    values = sorted(int(row.value) for row in target.read(columns="value").collect())
    assert values == list(range(ENTRY_COUNT))
    assert target.version_count() == BATCH_COUNT
    assert target.ledger_ids() == listed_in_all(target)


def listed_in_all(target: DataSetName) -> set[int]:
    with target.client() as client:
        data_sets = zbk.DataSets(client)
        versions = data_sets.history(target.name).versions
        listed = {manifest for version in versions for manifest in version.manifests}
        for version in versions:
            ledgers = data_sets.read(target.name, version.version).ledgers
            listed |= {ledger.ledger_id for ledger in ledgers}
    return listed


@pytest.mark.parametrize("sink", ["CommitFails", "CommitReplyIsLost", "TasksFail"])
def test_a_query_whose_sink_failed_starts_again_and_nothing_is_there_twice(
    spark: SparkSession, cluster: LocalCluster, events: DataSetName, tmp_path: Path, sink: str
) -> None:
    uri = cluster.metadata_uri
    name = filled_log(uri)
    for one in SINKS:
        spark.dataSource.register(one)
    frame = rows_of_log(spark, uri, name, maxEntriesPerTrigger=ENTRY_COUNT // BATCH_COUNT)
    text = error_of(lambda: run(frame, uri, events.name, tmp_path / "c", sink=sink))
    assert "InjectedError" in text
    assert events.version_count() == (2 if sink == "CommitReplyIsLost" else 1)
    run(frame, uri, events.name, tmp_path / "c", sink=sink)
    is_whole(events)


@pytest.mark.parametrize(
    "sinks",
    [
        ["KilledInTask"],
        pytest.param(["KilledBeforeCommit", "KilledAfterCommit"], marks=pytest.mark.soak),
    ],
)
def test_a_driver_that_is_killed_in_the_middle_is_followed_by_another_one(
    spark: SparkSession,
    cluster: LocalCluster,
    events: DataSetName,
    tmp_path: Path,
    quick_python: Path,
    sinks: list[str],
) -> None:
    uri = cluster.metadata_uri
    name = filled_log(uri)
    checkpoint = tmp_path / "c"
    for sink in sinks:
        Path(f"{checkpoint}.failed").unlink(missing_ok=True)
        arguments = [uri, name, events.name, str(checkpoint), sink, "100"]
        done = run_driver("tests.support.spark_stream_driver", arguments, quick_python)
        assert done.returncode == -9, done.stderr.decode()
    frame = rows_of_log(spark, uri, name, maxEntriesPerTrigger=100)
    run(frame, uri, events.name, checkpoint)
    is_whole(events)
