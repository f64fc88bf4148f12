"""Every type that Spark can hand over comes back as it was, or is refused before data moves."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tests.support.spark import DataSetName, error_of

SCHEMA = StructType(
    [
        StructField("boolean", BooleanType()),
        StructField("byte", ByteType()),
        StructField("short", ShortType()),
        StructField("int", IntegerType()),
        StructField("long", LongType(), nullable=False),
        StructField("float", FloatType()),
        StructField("double", DoubleType()),
        StructField("decimal", DecimalType(38, 18)),
        StructField("small_decimal", DecimalType(5, 2)),
        StructField("string", StringType()),
        StructField("binary", BinaryType()),
        StructField("date", DateType()),
        StructField("time", TimestampType()),
        StructField("time_without_zone", TimestampNTZType()),
        StructField("interval", DayTimeIntervalType()),
    ]
)

FULL = (
    True, -128, -32768, -(2**31), -(2**63), 0.5, 1e308, Decimal("-1234567890.123456789012345678"),
    Decimal("123.45"), "Köln 🚀", b"\x00\xff", dt.date(1582, 10, 15),
    dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    dt.datetime.fromisoformat("1900-01-01T00:00:00.000001"), dt.timedelta(days=3, microseconds=1),
)  # fmt: skip
ZERO = (
    False, 0, 0, 0, 0, -0.0, float("-inf"), Decimal(0), Decimal("0.00"), "", b"",
    dt.date(1970, 1, 1), dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    dt.datetime.fromisoformat("9999-12-31"), dt.timedelta(0),
)  # fmt: skip
NULLS = tuple(1 if field.name == "long" else None for field in SCHEMA.fields)

NESTED = """
    id,
    array(id, null, -id) numbers,
    array() nothing,
    array(array(id), array(), null) deep,
    map('a', id, 'b', null) counts,
    map(id, array(struct('x' as name, cast(id as decimal(10, 3)) as price))) orders,
    struct(id, struct(cast(id as string) text, null maybe) below) tree,
    if(id % 2 = 0, null, struct(id as left, array(struct(date'2024-01-01' as day)) as days)) half,
    null always_null
"""


def _same(one: DataFrame, other: DataFrame) -> bool:
    """Return whether two frames hold the same rows: compared by Spark, as JSON of all columns."""
    texts = [frame.selectExpr("to_json(struct(*)) j").collect() for frame in (one, other)]
    return sorted(texts[0]) == sorted(texts[1])


def test_every_plain_type_comes_back_as_it_was(events: DataSetName) -> None:
    frame = events.spark.createDataFrame([FULL, ZERO, NULLS], SCHEMA)
    events.write(frame.coalesce(1))
    back = events.read()
    assert [tuple(row) for row in back.collect()] == [tuple(row) for row in frame.collect()]
    assert [f.dataType for f in back.schema.fields] == [f.dataType for f in SCHEMA.fields]
    assert all(field.nullable for field in back.schema.fields)


def test_nested_types_come_back_as_they_were(events: DataSetName) -> None:
    frame = events.spark.range(0, 50, 1, 2).selectExpr(*NESTED.strip().split(",\n"))
    events.write(frame)
    assert _same(events.read(), frame)
    assert events.read().schema.simpleString() == frame.schema.simpleString()


def test_a_variant_and_a_time_of_day_come_back_as_they_were(events: DataSetName) -> None:
    variant = """parse_json('{"a": [1, null, "x"]}') v"""
    frame = events.spark.range(3).selectExpr("id", variant, "time'12:34:56.789' t")
    events.write(frame)
    texts = ("id", "to_json(v) v", "t")
    assert _same(events.read().selectExpr(*texts), frame.selectExpr(*texts))


def test_the_zone_of_the_session_changes_no_instant(events: DataSetName) -> None:
    spark = events.spark
    text = "id, timestamp'2024-07-01 12:00:00 UTC' t, timestamp_ntz'2024-07-01 12:00:00' n"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        events.write(spark.range(2).selectExpr(*text.split(", ")))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")  # as the fixture has it
    found = events.read().selectExpr("string(t)", "string(n)").distinct().collect()
    assert [tuple(row) for row in found] == [("2024-07-01 12:00:00", "2024-07-01 12:00:00")]


@pytest.mark.parametrize("row_count", [0, 1])
def test_an_empty_frame_and_one_of_a_single_row(events: DataSetName, row_count: int) -> None:
    frame = events.spark.range(row_count).selectExpr("id", "'x' text")
    events.write(frame)
    back = events.read()
    assert back.count() == row_count
    assert back.columns == ["id", "text"]
    assert events.version_count() == 1


def test_empty_partitions_make_no_ledgers(events: DataSetName) -> None:
    events.write(events.spark.range(0, 100, 1, 8).where("id >= 99"))
    assert [row.id for row in events.read().collect()] == [99]
    assert events.read(view="ledgers").count() == 1


def test_rows_larger_than_an_entry_are_cut_and_put_together(events: DataSetName) -> None:
    sizes = [10, 300_000, 0, 5_000_000, 70_000, 1]
    rows = [(n, bytes([n]) * size) for n, size in enumerate(sizes)]
    frame = events.spark.createDataFrame(rows, "n int, payload binary").coalesce(1)
    events.write(frame, entryBytes="64k")
    expected = {row.n: row.payload for row in frame.collect()}
    assert {r.n: r.payload for r in events.read().collect()} == expected
    split = events.read(maxPartitionBytes="64k")
    assert split.rdd.getNumPartitions() > 10
    assert {r.n: r.payload for r in split.collect()} == expected


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("interval '1' year y", "interval year"),
        ("array(interval '1' year) y", "interval year"),
    ],
)
def test_a_type_that_cannot_be_kept_is_refused_by_name(
    events: DataSetName, expression: str, named: str
) -> None:
    text = error_of(lambda: events.write(events.spark.range(1).selectExpr("id", expression)))
    assert "InvalidOptionError: schema='struct<" in text
    assert named.lower() in text.lower()
    assert "NoSuchDataSet" in error_of(events.read)  # nothing was begun


def test_a_frame_without_columns_or_with_a_name_twice_is_refused(
    events: DataSetName, spark: SparkSession
) -> None:
    assert "no columns" in error_of(lambda: events.write(spark.range(1).select()))
    twice = spark.range(1).selectExpr("id", "id")
    assert "two columns have this name" in error_of(lambda: events.write(twice))
