"""Logs into data sets, by Spark: what comes is there once, whoever writes it."""

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

import zbk
from tests.support.spark import DataSetName, error_of
from tests.support.spark_streams import rows_of_log, run, start
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

WAIT_S = 60.0


def fill(log: zbk.Log, numbers: Sequence[int]) -> None:
    log.append_many([str(number).encode() for number in numbers]).result()


def numbers_in(target: DataSetName) -> list[int]:
    return sorted(int(row.value) for row in target.read(columns="value").collect())


def test_a_log_goes_into_a_data_set_a_version_a_micro_batch(
    spark: SparkSession, cluster: LocalCluster, events: DataSetName, tmp_path: Path
) -> None:
    uri = cluster.metadata_uri
    with zbk.connect(uri) as client, client.open_log(f"log-{uuid4().hex[:8]}") as log:
        fill(log, range(250))
        log.roll()
        fill(log, range(250, 500))
        log.close()
        frame = rows_of_log(spark, uri, log.name, maxEntriesPerTrigger=200)
        assert run(frame, uri, events.name, tmp_path / "checkpoint") == [200, 200, 100]
        assert events.version_count() == 3
        assert numbers_in(events) == list(range(500))
        row = events.read().orderBy("ledger_id", "entry_id").first()
        assert row is not None
        assert row.asDict() == {
            "value": b"0", "ledger_id": log.metadata.ledger_ids[0], "entry_id": 0,
            "timestamp": None, "log": log.name,
        }  # fmt: skip

        with client.open_log(log.name) as later:
            fill(later, range(500, 550))
        assert run(frame, uri, events.name, tmp_path / "checkpoint") == [50]
        assert run(frame, uri, events.name, tmp_path / "checkpoint") == []
        assert numbers_in(events) == list(range(550))
        assert events.version_count() == 4
        batch = spark.read.format("zbk").option("metadata", uri).option("log", log.name).load()
        assert batch.selectExpr("sum(cast(cast(value as string) as long)) s").first() == (
            sum(range(550)),
        )


def test_a_running_stream_follows_rolls_and_new_owners(
    spark: SparkSession, cluster: LocalCluster, events: DataSetName, tmp_path: Path
) -> None:
    uri, name = cluster.metadata_uri, f"log-{uuid4().hex[:8]}"
    with zbk.connect(uri) as client, zbk.connect(uri) as other:
        log = client.open_log(name)
        fill(log, range(100))
        query = start(
            rows_of_log(spark, uri, name), uri, events.name, tmp_path / "c", is_endless=True
        )
        is_read(events, 100)
        fill(log, range(100, 150))
        log.roll()
        fill(log, range(150, 200))
        taken = other.open_log(name)  # recovers the ledger of the first owner
        with pytest.raises(zbk.LogFencedError):
            fill(log, range(1000, 1001))
        fill(taken, range(200, 300))
        is_read(events, 300)
        taken.close()
        query.stop()
        assert query.exception() is None
    assert numbers_in(events) == list(range(300))


def is_read(target: DataSetName, count: int) -> None:
    wait_until(lambda: has_rows(target, count), WAIT_S, f"{count} rows")


def has_rows(target: DataSetName, count: int) -> bool:
    try:
        return target.row_count() >= count
    except zbk.NoSuchDataSetError:
        return False


def test_two_streams_write_into_one_data_set(
    spark: SparkSession, cluster: LocalCluster, events: DataSetName, tmp_path: Path
) -> None:
    uri = cluster.metadata_uri
    names = [f"log-{uuid4().hex[:8]}" for _ in range(2)]
    with zbk.connect(uri) as client:
        for i, name in enumerate(names):
            with client.open_log(name) as log:
                fill(log, range(300 * i, 300 * i + 300))
        queries = [
            start(
                rows_of_log(spark, uri, name, maxEntriesPerTrigger=100),
                uri,
                events.name,
                tmp_path / name,
            )
            for name in names
        ]
        for query in queries:
            query.awaitTermination()
        assert numbers_in(events) == list(range(600))
        data_set = zbk.DataSets(client).history(events.name)
    assert sorted(data_set.batch_by_stream) == sorted(str(query.id) for query in queries)
    assert set(data_set.batch_by_stream.values()) == {2}
    assert len(data_set.versions) == 6


def test_in_complete_mode_each_version_takes_the_place_of_the_one_before(
    spark: SparkSession, cluster: LocalCluster, events: DataSetName, tmp_path: Path
) -> None:
    uri = cluster.metadata_uri
    with zbk.connect(uri) as client, client.open_log(f"log-{uuid4().hex[:8]}") as log:
        fill(log, range(100))
        log.close()
    frame = rows_of_log(spark, uri, log.name, maxEntriesPerTrigger=60)
    counts = frame.selectExpr("length(value) n").groupBy("n").count()
    query = start(counts, uri, events.name, tmp_path / "c", mode="complete")
    query.awaitTermination()
    assert sorted(map(tuple, events.read().collect())) == [(1, 10), (2, 90)]
    assert sorted(map(tuple, events.read(version=1).collect())) == [(1, 10), (2, 50)]


def test_what_was_truncated_ends_a_query_unless_it_may_be_lost(
    spark: SparkSession, cluster: LocalCluster, events: DataSetName, tmp_path: Path
) -> None:
    uri = cluster.metadata_uri
    with zbk.connect(uri) as client, client.open_log(f"log-{uuid4().hex[:8]}") as log:
        fill(log, range(100))
        log.roll()
        fill(log, range(100, 120))
        log.close()
        frame = rows_of_log(spark, uri, log.name, maxEntriesPerTrigger=60)
        query = start(frame, uri, events.name, tmp_path / "c", is_endless=True, every="1 hour")
        is_read(events, 60)
        query.stop()
        assert events.row_count() == 60, "a second micro-batch would end the first ledger"
        client.truncate_log(log.name, zbk.LogPosition(log.metadata.ledger_ids[-1], 0))
        text = error_of(lambda: run(frame, uri, events.name, tmp_path / "c"))
        assert "was truncated" in text
        assert "failOnDataLoss" in text
        lossy = rows_of_log(spark, uri, log.name, failOnDataLoss="false")
        run(lossy, uri, events.name, tmp_path / "c")
    assert numbers_in(events) == [*range(60), *range(100, 120)][: events.row_count()]


def test_an_error_in_the_options_of_a_stream_is_told_in_plain_words(
    spark: SparkSession, cluster: LocalCluster, events: DataSetName, tmp_path: Path
) -> None:
    uri = cluster.metadata_uri
    with zbk.connect(uri) as client, client.open_log(f"log-{uuid4().hex[:8]}") as log:
        fill(log, range(3))
    assert "did you mean 'maxBytesPerTrigger'" in error_of(
        lambda: rows_of_log(spark, uri, log.name, maxBytePerTrigger="1")
    )
    frame = rows_of_log(spark, uri, log.name, endingOffsets="latest")
    text = error_of(lambda: run(frame, uri, events.name, tmp_path / "c"))
    assert "endingOffsets='latest': is not an option to read a stream" in text
