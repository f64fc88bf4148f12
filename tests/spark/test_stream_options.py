"""The options of a log: frames, streams and sinks take or refuse them, without Spark."""

from uuid import uuid4

import pytest

import zbk
from pyspark_zbk.log_rows import LOG_SCHEMA
from pyspark_zbk.options import Connection
from pyspark_zbk.schemas import chosen, stored_schema
from pyspark_zbk.source import DefaultSource
from tests.support.log_streams import World, fill


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
