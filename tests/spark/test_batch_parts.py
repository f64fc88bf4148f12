"""The parts of the batch source that need no Spark: entries, bounds, options, plans, clients."""

import datetime as dt
import multiprocessing
import pickle
import tracemalloc
from collections.abc import Iterable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import (
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

import zbk
from pyspark_zbk import clients
from pyspark_zbk.entries import MessageJoiner, entries_of
from pyspark_zbk.options import Connection, Options, Use
from pyspark_zbk.reader import Slice, may_hold, plan
from pyspark_zbk.schemas import collated_columns, stored_schema
from pyspark_zbk.stats import BOUND_SIZE_MAX, ColumnBounds
from zbk.cluster.local import LocalCluster

NAN = float("nan")
UTC = dt.UTC


def _ledger(ledger_id: int = 1, *, size: int = 100, **fields: object) -> zbk.DataLedger:
    plain = zbk.DataLedger(
        ledger_id=ledger_id,
        entry_count=11,
        row_count=10,
        size=size,
        load_id="load",
        partition=0,
        attempt=0,
    )
    return msgspec.structs.replace(plain, **fields)


def _joined(entries: Iterable[bytes]) -> list[bytes]:
    joiner = MessageJoiner()
    found = [joiner.add(entry) for entry in entries]
    assert joiner.missing_count == 0
    return [bytes(message) for message in found if message is not None]


# ---------------------------------------------------------------------- entries


@given(
    sizes=st.lists(st.integers(0, 20_000), min_size=1, max_size=60),
    size_max=st.integers(512, 8_192),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_sizes_of_rows_a_batch_comes_back_from_its_entries(
    sizes: list[int], size_max: int
) -> None:
    batch = pa.record_batch({"payload": [bytes(size) for size in sizes]})
    entries = list(entries_of(batch, size_max))
    assert max(map(len, entries)) <= size_max
    batches = [pa.ipc.read_record_batch(pa.py_buffer(m), batch.schema) for m in _joined(entries)]
    assert pa.Table.from_batches(batches) == pa.Table.from_batches([batch])


def test_a_range_that_begins_within_a_message_begins_with_the_next_one() -> None:
    batch = pa.record_batch({"payload": [bytes(5_000), b"small"]})
    entries = list(entries_of(batch, 1024))
    joiner = MessageJoiner()
    found = [one for one in (joiner.add(entry) for entry in entries[2:]) if one is not None]
    assert len(found) == 1
    assert pa.ipc.read_record_batch(pa.py_buffer(found[0]), batch.schema).num_rows == 1


@pytest.mark.parametrize("missing", [1, 2])
def test_a_message_with_a_part_missing_is_damage(missing: int) -> None:
    entries = list(entries_of(pa.record_batch({"payload": [bytes(5_000)]}), 1024))
    joiner = MessageJoiner()
    joiner.add(entries[0])
    with pytest.raises(zbk.CorruptRecordError):
        joiner.add(entries[missing + 1] if missing == 1 else b"\xff\xff\xff\xff of another one")
    with pytest.raises(zbk.CorruptRecordError):
        MessageJoiner().add(b"zbkP")


def test_cutting_a_batch_takes_little_more_memory_than_an_entry() -> None:
    batch = pa.record_batch({"payload": [bytes(100)] * 300_000})  # 30 MB
    size_max = 256 * 1024
    tracemalloc.start()
    for _ in entries_of(batch, size_max):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * size_max


# ---------------------------------------------------------------------- bounds


def _stats(values: pa.Array) -> zbk.ColumnStats:
    batch = pa.record_batch({"c": values})
    bounds = ColumnBounds(batch.schema)
    bounds.add(batch.slice(0, 1))
    bounds.add(batch.slice(1))
    return bounds.stats()["c"]


def test_bounds_are_the_least_and_the_greatest_of_all_batches() -> None:
    found = _stats(pa.array([5, None, -3, 9]))
    assert (found.low, found.high, found.null_count) == (-3, 9, 1)
    found = _stats(pa.array([dt.date(1970, 1, 3), dt.date(1969, 12, 31)]))
    assert (found.low, found.high) == (-1, 2)
    instant = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    found = _stats(pa.array([instant, None], pa.timestamp("us", "UTC")))
    assert (found.low, found.high) == (1_000_000, 1_000_000)


def test_a_column_with_nan_or_with_long_texts_has_no_bounds() -> None:
    """NaN is greater than everything in Spark, and Arrow's least and greatest leave it out."""
    assert _stats(pa.array([1.0, NAN, 2.0])).high is None
    assert _stats(pa.array([NAN, 2.0, 1.0])).low is None
    assert _stats(pa.array(["a", "b" * (BOUND_SIZE_MAX + 1)])).low is None
    assert _stats(pa.array([1.5, 2.0])).high == 2.0


def test_texts_that_are_compared_by_a_collation_have_no_bounds() -> None:
    schema = StructType(
        [StructField("a", StringType("UTF8_LCASE")), StructField("b", StringType())]
    )
    assert collated_columns(schema) == ["a"]
    batch = pa.record_batch({"a": ["x"], "b": ["x"]})
    bounds = ColumnBounds(batch.schema, collated_columns(schema))
    bounds.add(batch)
    assert list(bounds.stats()) == ["b"]


C = ("c",)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EqualTo(C, 10), True),
        (EqualTo(C, 20), True),
        (EqualTo(C, 21), False),
        (GreaterThan(C, 20), False),
        (GreaterThanOrEqual(C, 20), True),
        (LessThan(C, 10), False),
        (LessThanOrEqual(C, 10), True),
        (LessThan(C, NAN), True),
        (In(C, (1, 2)), False),
        (In(C, (1, 15)), True),
        (In(C, (None, 1)), True),
        (EqualTo(C, "text"), True),
        (IsNull(C), True),
        (IsNotNull(C), True),
        (StringStartsWith(C, "x"), True),
        (EqualTo(("other",), 1), True),
        (EqualTo(("c", "field"), 1), True),
    ],
)
def test_a_ledger_is_skipped_only_if_it_cannot_hold_what_is_wanted(
    wanted: Filter, expected: bool
) -> None:
    stats = zbk.ColumnStats(null_count=2, low=10, high=20)
    assert may_hold(_ledger(columns={"c": stats}), wanted) is expected


def test_a_column_of_nulls_cannot_compare_with_anything() -> None:
    ledger = _ledger(columns={"c": zbk.ColumnStats(null_count=10)})
    assert not may_hold(ledger, EqualTo(C, 1))
    assert not may_hold(ledger, IsNotNull(C))
    assert may_hold(ledger, IsNull(C))


def test_dates_and_times_of_filters_compare_with_bounds() -> None:
    days = _ledger(columns={"c": zbk.ColumnStats(null_count=0, low=0, high=10)})
    assert may_hold(days, EqualTo(C, dt.date(1970, 1, 11)))
    assert not may_hold(days, EqualTo(C, dt.date(1970, 1, 12)))
    second = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    times = _ledger(columns={"c": zbk.ColumnStats(null_count=0, low=0, high=999_999)})
    assert not may_hold(times, GreaterThanOrEqual(C, second))
    assert may_hold(times, LessThan(C, second.replace(tzinfo=None)))


@given(st.lists(st.integers(-20, 20) | st.none(), min_size=1, max_size=8), st.integers(-20, 20))
def test_no_row_is_lost_by_skipping(values: list[int | None], value: int) -> None:
    bounds = ColumnBounds(pa.schema([("c", pa.int64())]))
    bounds.add(pa.record_batch({"c": pa.array(values, pa.int64())}))
    ledger = _ledger(row_count=len(values), columns=bounds.stats())
    there = [one for one in values if one is not None]
    assert may_hold(ledger, EqualTo(C, value)) or value not in there
    assert may_hold(ledger, GreaterThan(C, value)) or not any(one > value for one in there)
    assert may_hold(ledger, LessThanOrEqual(C, value)) or not any(one <= value for one in there)
    assert may_hold(ledger, IsNull(C)) or None not in values


# ---------------------------------------------------------------------- plans


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 400_000)), max_size=20),
    st.integers(65_536, 300_000),
)
def test_a_plan_has_every_entry_once(shapes: list[tuple[int, int]], size_max: int) -> None:
    ledgers = [
        _ledger(number, entry_count=count, size=size) for number, (count, size) in enumerate(shapes)
    ]
    slices = [piece for partition in plan(ledgers, size_max) for piece in partition]
    found = [(s.ledger_id, e) for s in slices for e in range(s.first, s.last + 1)]
    wanted = [(one.ledger_id, e) for one in ledgers for e in range(1, one.entry_count)]
    assert sorted(found) == wanted


def test_small_ledgers_share_a_partition_and_large_ones_are_split() -> None:
    found = list(plan([_ledger(1), _ledger(2), _ledger(3, size=1000)], 500))
    assert found == [[Slice(3, 1, 5)], [Slice(3, 6, 10)], [Slice(1, 1, 10), Slice(2, 1, 10)]]


# ---------------------------------------------------------------------- options, schemas


def test_sizes_that_are_not_given_follow_those_that_are() -> None:
    def sizes(**options: str) -> tuple[int, int, int]:
        shape = Options(options).shape
        return shape.ensemble_size, shape.write_quorum_size, shape.ack_quorum_size

    assert sizes() == (3, 3, 2)
    assert sizes(writeQuorumSize="1") == (1, 1, 1)
    assert sizes(ensembleSize="5") == (5, 5, 3)
    assert sizes(ensembleSize="5", writeQuorumSize="3", ackQuorumSize="3") == (5, 3, 3)


@pytest.mark.parametrize("value", ["1m", "1MB", "1 MiB", "1048576", "1024k"])
def test_a_size_may_be_written_as_people_do(value: str) -> None:
    assert Options({"ENTRYBYTES": value}).entry_size_max == 1024 * 1024


def test_an_option_of_another_use_is_refused() -> None:
    options = Options({"version": "1", "metadata": "zk://a/b"})
    options.check_use(Use.READ)
    with pytest.raises(zbk.InvalidOptionError, match="is not an option to write"):
        options.check_use(Use.WRITE)


def test_a_password_is_looked_up_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"sesame\n")
    by_file = Options({"passwordFile": str(tmp_path / "secret")}).connection
    by_name = Options({"passwordEnv": "ZBK_TEST_PASSWORD"}).connection
    monkeypatch.setenv("ZBK_TEST_PASSWORD", "sesame")
    assert by_file.password() == by_name.password() == b"sesame"
    assert b"sesame" not in pickle.dumps([by_file, by_name])
    monkeypatch.delenv("ZBK_TEST_PASSWORD")
    with pytest.raises(zbk.InvalidOptionError, match="no such variable"):
        by_name.password()


def test_a_place_of_a_password_that_holds_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"\n")
    monkeypatch.setenv("ZBK_TEST_PASSWORD", "")
    for name, value in (
        ("passwordFile", str(tmp_path / "secret")),
        ("passwordEnv", "ZBK_TEST_PASSWORD"),
    ):
        with pytest.raises(zbk.InvalidOptionError, match=f"{name}=.*holds no password"):
            Options({name: value}).connection.password()


def test_schemas_that_differ_in_nothing_but_nulls_and_comments_are_the_same() -> None:
    def of(*, nullable: bool, metadata: dict[str, Any]) -> bytes:
        inner = StructType([StructField("x", DoubleType(), nullable, metadata)])
        kind = MapType(LongType(), inner, nullable)
        return stored_schema(StructType([StructField("m", kind, nullable, metadata)]))

    assert of(nullable=True, metadata={}) == of(nullable=False, metadata={"comment": "x"})


# ---------------------------------------------------------------------- clients


def test_a_client_is_used_again_and_the_one_unused_for_longest_is_closed(
    cluster: LocalCluster,
) -> None:
    def connection(number: int) -> Connection:
        options = {"request_timeout_ms": str(1000 + number)}
        return Connection(metadata=cluster.metadata_uri, client_options=options)

    try:
        first = clients.task_client(connection(0))
        assert clients.task_client(connection(0)) is first
        second = clients.task_client(connection(1))
        for number in range(2, clients.CLIENT_COUNT_MAX):
            clients.task_client(connection(number))
        assert clients.task_client(connection(0)) is first
        clients.task_client(connection(99))
        first.check_usable()
        with pytest.raises(zbk.ClientClosedError):
            second.check_usable()
    finally:
        clients.close_clients()
    with pytest.raises(zbk.ClientClosedError):
        first.check_usable()


def test_a_fork_opens_a_client_of_its_own(cluster: LocalCluster) -> None:
    connection = Connection(metadata=cluster.metadata_uri, client_options={})
    mine = clients.task_client(connection)
    try:
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()
        child = fork.Process(target=_use_a_client, args=(connection, theirs))
        child.start()
        assert ours.poll(30), "the child answers"
        assert ours.recv() == (3, [])
        child.join(30)
        assert clients.task_client(connection) is mine
        assert len(mine.list_bookies()) == 3
    finally:
        clients.close_clients()


def _use_a_client(connection: Connection, answers: Pipe) -> None:
    inherited = list(clients._clients)
    client = clients.task_client(connection)
    answers.send(
        (len(client.list_bookies()), [key for key in inherited if key in clients._clients])
    )
    clients.close_clients()
