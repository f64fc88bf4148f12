"""Micro-batches of a log: their limits, what is available, and a cluster that does not answer."""

import time
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import zbk
from pyspark_zbk.log_follower import ASK_INTERVAL_S, LogFollower
from tests.support.log_streams import Stream, World, fill
from tests.support.waiting import wait_until


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
