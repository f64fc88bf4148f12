"""The reader of a log as Spark calls it, over a real cluster, without Spark."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, cast
from uuid import uuid4

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

import zbk
from pyspark_zbk.clients import close_clients
from pyspark_zbk.log_follower import ASK_INTERVAL_S, LogFollower
from pyspark_zbk.log_options import Offset, log_options
from pyspark_zbk.log_reader import LogReader, find_log
from pyspark_zbk.log_rows import LOG_SCHEMA, LogPartition
from pyspark_zbk.options import Connection, Options
from pyspark_zbk.schemas import chosen, stored_schema
from pyspark_zbk.source import DefaultSource
from pyspark_zbk.stream_reader import LogStreamReader
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

At = zbk.LogPosition


class Stream:
    """One query over a log: does what Spark does, and keeps what Spark keeps."""

    def __init__(self, connection: Connection, name: str, **options: str) -> None:
        given = Options({"log": name, **options})
        self.reader = LogStreamReader(log_options(given, is_stream=True), connection, LOG_SCHEMA)
        self.at: Offset | None = None

    def begin(self) -> Offset:
        if self.at is None:
            self.at = self.reader.initialOffset()
        return self.at

    def batch(self, limit: ReadLimit | None = None) -> list[bytes]:
        """Run one micro-batch; none if there is nothing new."""
        start = self.begin()
        end = self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())
        values = self.values(start, end)
        self.at = end
        return values

    def head(self) -> Offset:
        """Return what Spark reports as the end of the log."""
        head = self.reader.reportLatestOffset()
        assert head is not None, "the cluster answers"
        return head

    def values(self, start: Offset, end: Offset) -> list[bytes]:
        return [row["value"] for row in self.rows(start, end)]

    def rows(self, start: Offset, end: Offset) -> list[dict[str, Any]]:
        if start == end:
            return []
        parts = self.reader.partitions(start, end)
        return [
            row for part in parts for rows in self.reader.read(part) for row in rows.to_pylist()
        ]

    def until(self, count: int) -> list[bytes]:
        """Run micro-batches until so many values came."""
        values: list[bytes] = []

        def is_enough() -> bool:
            values.extend(self.batch())
            return len(values) >= count

        wait_until(is_enough, what=f"{count} entries")
        return values

    def resumed(self) -> "Stream":
        """Return the same query in another process: it has only what Spark wrote down."""
        self.reader.stop()
        other = object.__new__(Stream)
        other.reader, other.at = self.reader, self.at
        return other


class World:
    """A cluster, a client, and what was opened on the way."""

    def __init__(self, uri: str, client: zbk.Client) -> None:
        self.client = client
        self.connection = Connection(metadata=uri, client_options={})
        self.streams: list[Stream] = []

    def log(self) -> zbk.Log:
        return self.client.open_log(f"log-{uuid4().hex[:8]}")

    def stream(self, log: zbk.Log, **options: str) -> Stream:
        options = {"startingOffsets": "earliest", **options}
        self.streams.append(Stream(self.connection, log.name, **options))
        return self.streams[-1]

    def frame(self, name: str, **options: str) -> list[bytes]:
        wanted = log_options(Options({"log": name, **options}), is_stream=False)
        reader = LogReader(wanted, find_log(self.connection, name), LOG_SCHEMA)
        return [
            row["value"]
            for part in reader.partitions()
            for rows in reader.read(part)
            for row in rows.to_pylist()
        ]


@pytest.fixture
def world(cluster: LocalCluster) -> Iterator[World]:
    with zbk.connect(cluster.metadata_uri) as client:
        made = World(cluster.metadata_uri, client)
        yield made
        for stream in made.streams:
            stream.reader.stop()
        close_clients()


def fill(log: zbk.Log, numbers: Sequence[int], size: int = 0) -> list[bytes]:
    """Append an entry a number; return them."""
    values = [str(number).encode().ljust(size, b".") for number in numbers]
    log.append_many(values).result()
    return values


def test_a_stream_reads_everything_over_rolled_ledgers_and_ends_where_the_log_does(
    world: World,
) -> None:
    log = world.log()
    values = fill(log, range(50))
    log.roll()
    values += fill(log, range(50, 80))
    log.roll()
    values += fill(log, range(80, 90))
    stream = world.stream(log)
    assert stream.until(90) == values
    assert stream.batch() == []
    log.close()


def test_entries_that_come_later_are_read_later_and_none_twice(world: World) -> None:
    log = world.log()
    stream = world.stream(log)
    values: list[bytes] = []
    for number in range(3):
        values += fill(log, range(10 * number, 10 * number + 10))
        assert stream.until(10) == values[-10:]
    log.close()


def test_a_stream_of_a_log_that_nobody_owned_yet_begins_with_its_first_entry(
    world: World,
) -> None:
    world.client._logs.create("unowned", 0)
    stream = Stream(world.connection, "unowned", startingOffsets="latest")
    world.streams.append(stream)
    assert stream.batch() == []
    with world.client.open_log("unowned") as log:
        values = fill(log, range(5))
        assert stream.until(5) == values


def test_only_entries_up_to_the_lac_are_read(world: World) -> None:
    """A VD log: what is acknowledged may be lost with the power, what is synced is not."""
    log = world.client.open_log(f"vd-{uuid4().hex[:8]}", ledger_type=zbk.LedgerType.VD_JOURNAL)
    values = fill(log, range(20))
    log.sync()
    stream = world.stream(log)
    assert stream.until(20) == values
    with world.client.open_ledger(log.ledger_id) as reader:
        last = stream.at
        assert last is not None
        assert last["entry"] == reader.last_add_confirmed + 1
    log.close()


@pytest.mark.parametrize("start", ["2", "text", "json"])
def test_a_stream_starts_at_a_position(world: World, start: str) -> None:
    log = world.log()
    values = fill(log, range(10))
    first = log.ledger_id
    log.roll()
    values += fill(log, range(10, 20))
    texts = {
        "2": f"{log.ledger_id}:2",
        "text": f"{first}:7",
        "json": f'{{"ledger": {first}, "entry": 10}}',
    }
    stream = world.stream(log, startingOffsets=texts[start])
    wanted = values[{"2": 12, "text": 7, "json": 10}[start] :]
    assert stream.until(len(wanted)) == wanted
    log.close()


def test_a_stream_that_starts_at_the_end_reads_only_what_comes(world: World) -> None:
    log = world.log()
    fill(log, range(10))
    log.roll()  # so that all of them are surely confirmed to readers
    stream = world.stream(log, startingOffsets="latest")
    wait_until(lambda: stream.reader.initialOffset()["ledger"] == log.ledger_id)
    assert stream.batch() == []
    values = fill(log, range(10, 15))
    assert stream.until(5) == values
    log.close()


def test_a_start_that_the_log_does_not_have_is_refused(world: World) -> None:
    log = world.log()
    fill(log, range(10))
    first = log.ledger_id
    log.close()
    log = world.client.open_log(log.name)
    for text, said in ((f"{first}:11", "only 10 entries"), ("999999:0", "no ledger 999999")):
        with pytest.raises(zbk.InvalidOptionError, match=said):
            world.stream(log, startingOffsets=text).begin()
    log.close()


def test_a_batch_holds_no_more_entries_than_its_limit(world: World) -> None:
    log = world.log()
    values = fill(log, range(25))
    log.roll()
    values += fill(log, range(25, 32))
    stream = world.stream(log, maxEntriesPerTrigger="10")
    wait_until(lambda: stream.begin() != stream.head())
    wait_until(lambda: stream.head()["entry"] == 7)
    sizes, seen = [], list[bytes]()
    while batch := stream.batch():
        sizes.append(len(batch))
        seen += batch
    assert (sizes, seen) == ([10, 10, 10, 2], values)
    log.close()


def test_a_batch_holds_no_more_bytes_than_its_limit_or_one_entry(world: World) -> None:
    log = world.log()
    values = [bytes(size) for size in (100, 100, 900, 100, 5_000, 100, 100)]
    log.append_many(values).result()
    log.roll()
    values += fill(log, range(3), size=300)
    stream = world.stream(log, maxBytesPerTrigger="1000", maxEntriesPerTrigger="4")
    wait_until(lambda: stream.head()["entry"] == 3)
    batches = []
    while batch := stream.batch():
        batches.append([len(value) for value in batch])
    assert batches == [[100, 100], [900, 100], [5000], [100, 100, 300, 300], [300]]
    assert [size for batch in batches for size in batch] == [len(value) for value in values]
    log.close()


def test_a_query_that_takes_all_there_is_knows_no_limit(world: World) -> None:
    log = world.log()
    values = fill(log, range(25))
    log.close()
    stream = world.stream(log, maxEntriesPerTrigger="10")
    assert stream.batch(ReadAllAvailable()) == values


def test_a_query_for_what_is_available_now_ends_though_more_comes(world: World) -> None:
    log = world.log()
    values = fill(log, range(20))
    log.roll()
    fill(log, range(20, 21))
    stream = world.stream(log, maxEntriesPerTrigger="8")
    wait_until(lambda: stream.head()["ledger"] == log.ledger_id)
    stream.reader.prepareForTriggerAvailableNow()
    target = stream.head()
    fill(log, range(21, 60))
    log.roll()
    seen: list[bytes] = []
    for _ in range(20):
        before = stream.begin()
        seen += stream.batch()
        if stream.at == before:
            break
    assert stream.at == target
    assert seen[:20] == values
    assert len(seen) in (20, 21)
    log.close()


def test_the_same_offsets_give_the_same_rows_after_a_roll_and_a_take_over(world: World) -> None:
    """What Spark does after a crash: the batch that was planned is read again, elsewhere."""
    log = world.log()
    values = fill(log, range(40))
    stream = world.stream(log)
    stream.until(40)
    start: Offset = {"log": log.name, "ledger": log.ledger_id, "entry": 5}
    end = stream.at
    assert end is not None
    before = stream.rows(start, end)
    with zbk.connect(world.connection.metadata) as other, other.open_log(log.name) as taken:
        again = stream.resumed()
        assert again.rows(start, end) == before
        assert [row["value"] for row in before] == values[5:40]
        more = fill(taken, range(40, 50))
        assert again.until(10) == more
    with pytest.raises(zbk.LogFencedError):
        log.append(b"too late")


def test_a_stream_goes_on_when_its_owner_is_replaced_in_the_middle(world: World) -> None:
    log = world.log()
    values = fill(log, range(10))
    stream = world.stream(log)
    seen = stream.until(10)
    for number in range(1, 4):
        with zbk.connect(world.connection.metadata) as other, other.open_log(log.name) as taken:
            values += fill(taken, range(10 * number, 10 * number + 10))
            seen += stream.until(10)
    assert seen == values


def test_an_idle_stream_does_not_need_a_ledger_that_it_has_read(world: World) -> None:
    log = world.log()
    fill(log, range(10))
    stream = world.stream(log)
    stream.until(10)
    log.roll()

    def has_moved() -> bool:
        assert stream.batch() == []
        return stream.begin()["ledger"] == log.ledger_id

    wait_until(has_moved)
    log.truncate(At(log.ledger_id, 0))
    values = fill(log, range(10, 15))
    assert stream.resumed().until(5) == values
    log.close()


def truncated_behind(world: World, **options: str) -> tuple[Stream, list[bytes], zbk.Log]:
    """Return a stream whose next entries were cut off, and what is left of the log."""
    log = world.log()
    fill(log, range(10))
    stream = world.stream(log, maxEntriesPerTrigger="4", **options)
    wait_until(lambda: len(stream.batch()) == 4)
    log.roll()
    left = fill(log, range(10, 15))

    def is_closed() -> bool:
        ledger_id = world.client.get_log_metadata(log.name).ledger_ids[0]
        return world.client.get_ledger_metadata(ledger_id).is_closed

    wait_until(is_closed)
    log.truncate(At(log.ledger_id, 0))
    return stream, left, log


def test_what_was_truncated_before_it_was_read_is_an_error(world: World) -> None:
    stream, _left, log = truncated_behind(world)
    resumed = stream.resumed()
    with pytest.raises(zbk.LogTruncatedError) as caught:
        wait_until(lambda: bool(resumed.batch()))
    assert "failOnDataLoss" in "".join(caught.value.__notes__)
    log.close()


def test_a_stream_that_may_lose_goes_on_with_what_is_left(world: World) -> None:
    stream, left, log = truncated_behind(world, failOnDataLoss="false")
    assert stream.resumed().until(5) == left
    log.close()


@pytest.mark.parametrize("may_lose", [False, True])
def test_a_batch_whose_entries_go_while_it_is_read(world: World, may_lose: bool) -> None:
    log = world.log()
    fill(log, range(10))
    first = log.ledger_id
    log.roll()
    fill(log, range(10, 15))
    stream = world.stream(log, failOnDataLoss=str(not may_lose).lower())
    wait_until(lambda: stream.head()["entry"] == 5)
    start = stream.begin()
    end = stream.reader.latestOffset(start, ReadAllAvailable())
    parts = stream.reader.partitions(start, end)
    assert isinstance(parts[0], LogPartition)
    assert [one.ledger_id for one in parts[0].ranges] == [first, log.ledger_id]
    log.truncate(At(log.ledger_id, 0))
    if may_lose:
        rows = [
            row for part in parts for rows in stream.reader.read(part) for row in rows.to_pylist()
        ]
        assert [row["value"] for row in rows] == [b"10", b"11", b"12", b"13", b"14"]
        assert len(stream.rows(start, end)) == 5
    else:
        with pytest.raises(zbk.LogTruncatedError):
            list(stream.reader.read(parts[0]))
        with pytest.raises(zbk.LogTruncatedError):
            stream.reader.partitions(start, end)
    log.close()


def test_a_checkpoint_of_another_log_is_refused(world: World) -> None:
    log, other = world.log(), world.log()
    fill(log, range(3))
    fill(other, range(3))
    at: Offset = {"log": other.name, "ledger": other.ledger_id, "entry": 1}
    stream = world.stream(log)
    with pytest.raises(zbk.InvalidOptionError, match="checkpoint is of log"):
        stream.reader.latestOffset(at, ReadAllAvailable())
    end: Offset = {"log": log.name, "ledger": other.ledger_id, "entry": 1}
    start: Offset = {"log": log.name, "ledger": log.ledger_id, "entry": 0}
    with pytest.raises(zbk.InvalidOptionError, match="no ledger"):
        stream.reader.partitions(start, end)
    log.close()
    other.close()


class Listened:
    """A client that counts what it is asked of a log, and may be cut off."""

    def __init__(self, client: zbk.Client) -> None:
        self._client = client
        self.asked_count = 0
        self.is_cut_off = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a client has
        return getattr(self._client, name)

    def get_log_metadata(self, name: str) -> zbk.LogMetadata:
        self.asked_count += 1
        if self.is_cut_off:
            raise zbk.MetadataUnavailableError("the store", "nobody answers")
        return self._client.get_log_metadata(name)


def listened(world: World, stream: Stream, log: zbk.Log) -> Listened:
    """Start a stream on a client that is listened to."""
    client = Listened(world.client)
    stream.reader._follower = LogFollower(cast("zbk.Client", client), log.name, b"")
    return client


def test_an_idle_stream_asks_the_cluster_once_in_a_while(world: World) -> None:
    log = world.log()
    fill(log, range(3))
    log.close()  # so that each look is at the list
    stream = world.stream(log)
    client = listened(world, stream, log)
    stream.until(3)
    before, asked_before = time.monotonic(), client.asked_count
    for _ in range(500):
        assert stream.batch() == []
    passed_s = time.monotonic() - before
    assert client.asked_count - asked_before <= passed_s / ASK_INTERVAL_S + 1


def test_a_stream_waits_for_a_cluster_that_does_not_answer(world: World) -> None:
    log = world.log()
    values = fill(log, range(3))
    log.close()
    stream = world.stream(log)
    client = listened(world, stream, log)
    stream.begin()
    client.is_cut_off = True
    assert stream.batch() == []
    client.is_cut_off = False
    assert stream.until(3) == values


def test_a_query_for_what_is_available_does_not_end_because_nobody_answers(world: World) -> None:
    log = world.log()
    values = fill(log, range(3))
    log.close()
    stream = world.stream(log)
    client = listened(world, stream, log)
    stream.begin()
    stream.reader.prepareForTriggerAvailableNow()
    client.is_cut_off = True
    with pytest.raises(zbk.MetadataUnavailableError):
        stream.batch()
    client.is_cut_off = False
    assert stream.batch() == values


def test_a_frame_holds_what_lies_between_two_positions(world: World) -> None:
    log = world.log()
    values = fill(log, range(10))
    first = log.ledger_id
    log.roll()
    values += fill(log, range(10, 20))
    second = log.ledger_id
    log.close()
    assert world.frame(log.name) == values
    assert world.frame(log.name, startingOffsets=f"{first}:8") == values[8:]
    assert world.frame(log.name, endingOffsets=f"{second}:3") == values[:13]
    between = {"startingOffsets": f"{first}:3", "endingOffsets": f"{first}:5"}
    assert world.frame(log.name, **between) == values[3:5]
    assert world.frame(log.name, startingOffsets=f"{second}:10") == []
    assert world.frame(log.name, maxPartitionBytes="64k") == values


def test_a_frame_refuses_an_end_that_is_not_there_yet(world: World) -> None:
    log = world.log()
    fill(log, range(10))
    last = log.ledger_id
    log.close()
    for end in (f"{last}:11", f"{last + 1}:0"):
        with pytest.raises(zbk.InvalidOptionError, match=f"it ends at {last}:10"):
            world.frame(log.name, endingOffsets=end)


def test_a_log_with_a_password_is_read_with_it_and_not_without(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZBK_TEST_PASSWORD", "secret")
    name = f"log-{uuid4().hex[:8]}"
    with world.client.open_log(name, password=b"secret") as log:
        values = fill(log, range(5))
    with pytest.raises(zbk.UnauthorizedError):
        world.frame(name)
    metadata = world.connection.metadata
    world.connection = Connection(
        metadata=metadata, client_options={}, password_env="ZBK_TEST_PASSWORD"
    )
    assert world.frame(name) == values
    assert world.stream(log).until(5) == values


def test_a_log_that_is_not_there_is_an_error(world: World) -> None:
    with pytest.raises(zbk.NoSuchLogError, match="nowhere"):
        world.frame("nowhere")


def source(world: World, **options: str) -> DefaultSource:
    return DefaultSource({"metadata": world.connection.metadata, **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets='latest': is not an option to read a stream"),
        ({"version": "3"}, "version='3': is not an option to read a stream"),
        ({"startingOffsets": "soon"}, "startingOffsets='soon'"),
        ({"path": "events"}, "which one is it"),
    ],
)
def test_options_that_a_stream_cannot_have_are_refused_before_it_starts(
    world: World, options: dict[str, str], said: str
) -> None:
    with world.log() as log:
        fill(log, range(3))
    with pytest.raises(zbk.InvalidOptionError, match=said):
        source(world, log=log.name, **options).streamReader(LOG_SCHEMA)


def test_options_of_a_stream_are_refused_where_a_frame_is_read(world: World) -> None:
    with world.log() as log:
        fill(log, range(3))
    for option in ("maxEntriesPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(zbk.InvalidOptionError, match="is not an option to read a log"):
            source(world, log=log.name, **{option: "10"}).reader(LOG_SCHEMA)
    with pytest.raises(zbk.InvalidOptionError, match="version='3'"):
        source(world, log=log.name, version="3").schema()
    assert source(world, log=log.name, columns="value,log").schema().names == ["value", "log"]


def test_a_stream_without_a_log_is_refused(world: World) -> None:
    with pytest.raises(zbk.InvalidOptionError, match="readStream reads logs only"):
        source(world, path="events").streamReader(LOG_SCHEMA)


def test_options_that_a_sink_cannot_have_are_refused_before_a_row_is_written(
    world: World,
) -> None:
    name = f"events-{uuid4().hex[:8]}"
    for options, said in (
        ({"version": "3"}, "version='3': is not an option to write a stream"),
        ({"startingOffsets": "latest"}, "is not an option to write a stream"),
        ({"entryBytes": "1"}, "entryBytes"),
    ):
        with pytest.raises(zbk.InvalidOptionError, match=said):
            source(world, path=name, **options).streamWriter(LOG_SCHEMA, overwrite=False)
    with pytest.raises(zbk.NotEnoughBookiesError, match="ensembleSize"):
        source(world, path=name, ensembleSize="9").streamWriter(LOG_SCHEMA, overwrite=False)
    assert name not in zbk.DataSets(world.client).list()


def test_a_stream_of_another_schema_than_the_data_set_is_refused(world: World) -> None:
    name = f"events-{uuid4().hex[:8]}"
    data_sets = zbk.DataSets(world.client)
    data_sets.commit(data_sets.begin(name), stored_schema(chosen(LOG_SCHEMA, ("value",))), [])
    with pytest.raises(zbk.DataSetConflictError, match="has the schema"):
        source(world, path=name).streamWriter(LOG_SCHEMA, overwrite=False)
    source(world, path=name).streamWriter(LOG_SCHEMA, overwrite=True)
