"""The reader of a log as Spark calls it, over a real cluster, without Spark."""

from uuid import uuid4

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import zbk
from pyspark_zbk.log_options import Offset
from tests.support.log_streams import Stream, World, fill
from tests.support.waiting import wait_until


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
