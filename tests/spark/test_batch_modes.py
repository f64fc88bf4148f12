"""Modes, options, views: what Spark grants a Python source, and what is refused at once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import zbk
from tests.support.spark import DataSetName, error_of


def _numbers(events: DataSetName, start: int, end: int) -> None:
    events.write(events.spark.range(start, end, 1, 2).selectExpr("id", "string(id) text"))


def test_appends_add_up_and_an_overwrite_leaves_the_old_version_readable(
    events: DataSetName,
) -> None:
    _numbers(events, 0, 100)
    _numbers(events, 100, 150)
    events.write(events.spark.range(7), mode="overwrite")
    assert events.read().columns == ["id"]
    assert events.read().count() == 7
    assert events.read(version=1).count() == 100
    second = events.read(version=2)
    assert second.selectExpr("sum(id)", "count(text)").first() == (sum(range(150)), 150)


def test_the_history_tells_which_application_loaded_a_version(
    events: DataSetName, spark: SparkSession
) -> None:
    events.write(spark.range(3))
    events.write(spark.range(3), who="nightly")
    with zbk.connect(events.metadata) as client:
        first, second = zbk.DataSets(client).history(events.name).versions

    assert first.who.endswith(f" {spark.sparkContext.applicationId}")
    assert second.who == "nightly"


def test_a_frame_reads_one_version_whatever_is_loaded_meanwhile(events: DataSetName) -> None:
    _numbers(events, 0, 10)
    frame = events.read()
    _numbers(events, 10, 20)
    assert frame.count() == 10
    assert events.read().count() == 20


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_modes_that_spark_does_not_grant_are_refused_by_spark(
    events: DataSetName, mode: str
) -> None:
    text = error_of(lambda: events.write(events.spark.range(1), mode=mode))
    assert "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" in text


@pytest.mark.parametrize("ledger_type", ["VD_JOURNAL", "VD_BYPASS_JOURNAL"])
def test_the_ledgers_of_a_load_may_be_striped(events: DataSetName, ledger_type: str) -> None:
    events.write(
        events.spark.range(0, 20_000, 1, 2),
        ledgerType=ledger_type,
        ensembleSize="3",
        writeQuorumSize="2",
    )
    assert events.read().selectExpr("count(id)", "sum(id)").first() == (20_000, sum(range(20_000)))


def test_a_table_is_refused_and_a_temporary_view_works(
    events: DataSetName, spark: SparkSession
) -> None:
    _numbers(events, 0, 10)
    options = f"using zbk options (metadata '{events.metadata}', dataset '{events.name}')"
    text = error_of(lambda: spark.sql(f"create table t {options}"))
    assert "CREATE TEMPORARY VIEW ... USING zbk OPTIONS (...) keeps them" in text
    spark.sql(f"create temporary view some_events {options}")
    found = spark.sql("select count(*) n, max(text) text from some_events where id < 5").first()
    assert found == (5, "4")
    spark.catalog.dropTempView("some_events")


def test_the_columns_wanted_come_in_the_order_wanted(events: DataSetName) -> None:
    _numbers(events, 0, 10)
    frame = events.read(columns="text, id")
    assert frame.columns == ["text", "id"]
    assert frame.where("id = 3").collect() == [("3", 3)]
    assert events.read(columns="text").collect()[0] == ("0",)


def test_a_schema_given_by_the_user_chooses_columns_and_changes_no_type(
    events: DataSetName, spark: SparkSession
) -> None:
    _numbers(events, 0, 10)
    reader = spark.read.format("zbk").option("metadata", events.metadata)
    assert reader.schema("text string").load(events.name).count() == 10
    text = error_of(reader.schema("id int").load(events.name).collect)
    assert "schema='id': is bigint in the data set, not int" in text
    text = error_of(reader.schema("other int").load(events.name).collect)
    assert "schema='other': no such column; known: id, text" in text


def test_the_ledgers_of_a_version_tell_row_counts_without_a_payload(events: DataSetName) -> None:
    _numbers(events, 0, 100)
    _numbers(events, 100, 130)
    ledgers = events.read(view="ledgers")
    assert ledgers.selectExpr("sum(row_count)", "count(*)").first() == (130, 4)
    assert {row.load_id for row in events.read(view="ledgers", columns="load_id").collect()} == {
        one.load_id for one in ledgers.collect()
    }
    assert events.read(view="ledgers", version=1).count() == 2
    assert "the only view is 'ledgers'" in error_of(lambda: events.read(view="rows"))


def test_a_large_ledger_is_split_and_small_ones_share_a_partition(events: DataSetName) -> None:
    frame = events.spark.range(0, 40_000, 1, 2).selectExpr("id", "repeat('x', 50) text")
    events.write(frame, entryBytes="16k")
    assert events.read().rdd.getNumPartitions() == 1
    split = events.read(maxPartitionBytes="256k")
    assert split.rdd.getNumPartitions() > 8
    assert split.selectExpr("sum(id)", "count(*)").first() == (sum(range(40_000)), 40_000)


def test_ledgers_that_cannot_hold_what_a_filter_wants_are_not_read(events: DataSetName) -> None:
    """Those that are skipped are gone: whoever read them would fail."""
    for start in (0, 1000, 2000):
        events.write(events.spark.range(start, start + 1000).coalesce(1))
    frame = events.read(pushFilters="true")
    with events.client() as client:
        first, _, third = zbk.DataSets(client).read(events.name).ledgers
        client.delete_ledger(first.ledger_id)
        client.delete_ledger(third.ledger_id)
    wanted = frame.where("id >= 1500 and id < 1510 and id is not null")
    assert wanted.selectExpr("sum(id)").first() == (sum(range(1500, 1510)),)
    assert frame.where("id in (1001, 1999)").count() == 2
    assert "NoSuchLedgerError" in error_of(frame.where("id > 10").collect)


def test_rows_with_nan_are_found_behind_a_filter(events: DataSetName) -> None:
    frame = events.spark.createDataFrame([(1.0,), (float("nan"),)], "value double").coalesce(1)
    events.write(frame)
    found = events.read(pushFilters="true")
    assert found.where("value > 5").count() == 1  # NaN is greater than everything
    assert found.where("value < double('NaN')").count() == 1


def test_another_schema_is_refused_before_any_data_moves(events: DataSetName) -> None:
    _numbers(events, 0, 10)
    before = events.ledger_ids()
    text = error_of(lambda: events.write(events.spark.range(5)))
    assert "has the schema struct<id:bigint,text:string>, the frame struct<id:bigint>" in text
    assert text.strip().endswith("SQLSTATE: 38000")
    assert "zbk/client" not in text  # no wall of frames
    assert events.ledger_ids() == before


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"entrybyte": "1m"}, "did you mean 'entryBytes'?"),
        ({"entryBytes": "1"}, "must be between 4096 and 1048576 bytes"),
        ({"entryBytes": "2m"}, "must be between 4096 and 1048576 bytes"),
        ({"entryBytes": "many"}, "entryBytes='many'"),
        ({"columns": "id"}, "columns='id': is not an option to write; those: ackQuorumSize"),
        ({"ackQuorumSize": "4"}, "ack quorum size >= 1, got 3, 3, 4"),
        ({"ensembleSize": "9"}, "need 9 bookies, have 3"),
        ({"ledgerType": "MEMORY"}, "is none of PD_JOURNAL, VD_JOURNAL, VD_BYPASS_JOURNAL"),
        ({"digestType": "MD5"}, "is none of"),
        ({"digestType": "MAC"}, "digest_type='MAC': needs a password"),
        ({"dataset": "other"}, "which one is it?"),
        ({"passwordFile": "/nowhere"}, "passwordFile='/nowhere'"),
        ({"client.entry_size": "1"}, "entry_size"),
        ({"loadTtl": "soon"}, "loadTtl"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_a_load_begins(
    events: DataSetName, options: dict[str, str], reason: str
) -> None:
    text = error_of(lambda: events.write(events.spark.range(1), **options))
    assert reason in text
    with events.client() as client:
        assert events.name not in zbk.DataSets(client).list()


def test_a_cluster_that_nobody_answers_for_is_named(spark: SparkSession, tmp_path: Path) -> None:
    nowhere = DataSetName(spark, "zk://127.0.0.1:1/zbk", "events")
    text = error_of(lambda: nowhere.write(spark.range(1), **{"client.connect_timeout_ms": "300"}))
    assert "metadata store zk://127.0.0.1:1/zbk" in text
    nowhere = DataSetName(spark, f"sqlite://{tmp_path}/none/metadata.db", "events")
    assert f"there is no folder {tmp_path}/none" in error_of(nowhere.read)


def test_a_password_is_never_in_a_plan_and_guards_every_ledger(
    events: DataSetName, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sesame\n")
    events.write(events.spark.range(5), passwordFile=secret)
    frame = events.read(passwordFile=secret)
    assert frame.count() == 5
    assert "sesame" not in frame._jdf.queryExecution().toString()
    assert "Unauthorized" in error_of(events.read) or "password" in error_of(events.read)
