"""Frames with the same rows have the same fingerprint, and only these."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_zbk.fingerprint import difference, fingerprint

ROWS = """
    select id, if(id % 3 = 0, null, cast(id as string)) name, array(id, null) numbers,
        map(id, array(map('x', id)), id + 1, null) maps, named_struct('a', null, 'b', id) inner,
        cast(id as decimal(38, 3)) amount, timestamp_seconds(id) moment
    from range(0, 40, 1, {partition_count})
"""


def one_row(spark: SparkSession, values: str) -> DataFrame:
    return spark.sql(f"select {values}").toDF("a", "b")


def test_order_partitions_and_the_order_of_columns_do_not_count(spark: SparkSession) -> None:
    rows = spark.sql(ROWS.format(partition_count=3))
    turned = spark.sql(ROWS.format(partition_count=1)).orderBy("id", ascending=False)
    turned = turned.select(*reversed(turned.columns))

    assert fingerprint(rows) == fingerprint(turned)
    assert fingerprint(rows).row_count == 40
    assert difference(rows, turned).is_empty


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("null, 1", "1, null"),
        ("array(1, null), 2", "array(1), 2"),
        ("array(null, 1), 1", "array(1, null), 1"),
        ("array(array(), array(1)), 1", "array(array(1), array()), 1"),
        ("map('a', 1, 'b', 2), 1", "map('a', 2, 'b', 1), 1"),
        ("named_struct('x', null, 'y', 1), 1", "named_struct('x', 1, 'y', null), 1"),
    ],
)
def test_a_null_is_nothing_else_at_any_depth(spark: SparkSession, one: str, other: str) -> None:
    assert fingerprint(one_row(spark, one)).hash != fingerprint(one_row(spark, other)).hash


def test_the_order_of_a_map_does_not_count(spark: SparkSession) -> None:
    one = one_row(spark, "map('a', 1, 'b', 2), 1")
    other = one_row(spark, "map('b', 2, 'a', 1), 1")

    assert fingerprint(one) == fingerprint(other)


def test_how_often_a_row_is_there_counts(spark: SparkSession) -> None:
    rows = spark.range(3)
    twice = rows.unionAll(rows.where("id = 1")).unionAll(rows.where("id = 1"))

    assert fingerprint(rows).hash != fingerprint(twice).hash
    found = difference(rows, twice)
    assert (found.only_left_count, found.only_right_count) == (0, 2)
    assert set(found.only_right) == {'{"id":1}'}


def test_rows_of_one_side_only_are_counted_and_shown(spark: SparkSession) -> None:
    found = difference(spark.range(0, 10), spark.range(2, 11), example_count=1)

    assert (found.only_left_count, found.only_right_count) == (2, 1)
    assert found.only_left[0] in ('{"id":0}', '{"id":1}')
    assert found.only_right == ('{"id":10}',)


def test_a_frame_without_rows_and_a_column_with_a_strange_name(spark: SparkSession) -> None:
    assert fingerprint(spark.range(0)).hash == "0" * 16
    assert fingerprint(spark.sql("select 1 as `a.b``c`")).row_count == 1
