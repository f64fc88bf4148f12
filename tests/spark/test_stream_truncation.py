"""Streams of a log whose ledgers go: an error, or what is left, if the stream may lose."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import zbk
from pyspark_zbk.log_rows import LogPartition
from tests.support.log_streams import Stream, World, fill
from tests.support.waiting import wait_until

At = zbk.LogPosition


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
