"""Loads without a driver: all who take part begin them, as tasks of a micro-batch do."""

from collections.abc import Iterator

import pytest

from tests.support.data_set_janitor import World, world
from tests.support.fake_data_sets import NAME, SCHEMA, Clock, FakeDataSetClient, write_ledger
from tests.support.memory_store import MemoryTree
from zbk.client.dataset.datasets import DataSets, LoadTicket
from zbk.client.dataset.loads import TTL_MS
from zbk.errors import InvalidOptionError, LoadAbortedError
from zbk.metadata.paths import load_path
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.values import encode
from zbk.protocol.dataset.dataset import Load, LoadKind, LoadState, new_load_id

__all__ = ["world"]


@pytest.fixture
def tasks() -> Iterator[list[DataSets]]:
    """The data sets of one cluster, as two processes see them."""
    tree, payloads, clock = MemoryTree("joint loads"), dict[int, list[bytes]](), Clock()
    stores = [tree.open_session() for _ in range(2)]
    initialise(stores[0])
    yield [FakeDataSetClient(store, payloads).data_sets(clock) for store in stores]
    for store in stores:
        store.close()


def begin(sets: DataSets, load_id: str, kind: LoadKind = LoadKind.APPEND) -> LoadTicket:
    return sets.begin(NAME, kind, stream="query", batch_id=3, load_id=load_id)


def test_all_who_begin_a_load_get_the_same_ticket_and_their_ledgers_one_version(
    tasks: list[DataSets],
) -> None:
    load_id = tasks[0].new_load_id()
    tickets = [begin(sets, load_id) for sets in tasks]
    assert tickets[0] == tickets[1]
    ledgers = [write_ledger(sets, tickets[0], partition=n) for n, sets in enumerate(tasks)]
    data_set = tasks[1].commit(tickets[0], SCHEMA, ledgers)
    assert data_set.current is not None
    assert (data_set.current.load_id, data_set.current.ledger_count) == (load_id, 2)
    assert data_set.batch_by_stream == {"query": 3}


def test_an_overwrite_keeps_the_base_that_its_first_task_saw(tasks: list[DataSets]) -> None:
    load_id = tasks[0].new_load_id()
    first = begin(tasks[0], load_id, LoadKind.OVERWRITE)
    other = tasks[1].begin(NAME)
    tasks[1].commit(other, SCHEMA, [write_ledger(tasks[1], other)])
    assert begin(tasks[1], load_id, LoadKind.OVERWRITE) == first
    assert first.base_version == 0


def test_nobody_joins_a_load_that_has_ended(tasks: list[DataSets]) -> None:
    load_id = tasks[0].new_load_id()
    ticket = begin(tasks[0], load_id)
    tasks[0].abort(ticket)
    with pytest.raises(LoadAbortedError):
        begin(tasks[1], load_id)


def test_a_micro_batch_that_another_load_has_committed_adds_nothing(tasks: list[DataSets]) -> None:
    first, second = (begin(sets, sets.new_load_id()) for sets in tasks)
    tasks[0].commit(first, SCHEMA, [write_ledger(tasks[0], first)])
    late = write_ledger(tasks[1], second)
    assert tasks[1].commit(second, SCHEMA, [late]).current_version == 1
    assert tasks[1].loads(NAME)[second.load_id].state is LoadState.ABORTED
    assert late.ledger_id not in [one.ledger_id for one in tasks[1].read(NAME).ledgers]


def test_whether_a_schema_is_that_of_the_last_version_needs_no_manifest(
    tasks: list[DataSets],
) -> None:
    assert tasks[0].has_schema(NAME, b"any")
    ticket = tasks[0].begin(NAME)
    assert tasks[0].has_schema(NAME, b"any")
    tasks[0].commit(ticket, SCHEMA, [])
    assert tasks[0].has_schema(NAME, SCHEMA)
    assert not tasks[0].has_schema(NAME, b"any")


def test_all_who_take_part_in_a_micro_batch_are_given_one_ticket(world: World) -> None:
    load_id = world.driver.new_load_id(TTL_MS)

    tickets = [
        sets.begin(NAME, stream="s", batch_id=0, load_id=load_id)
        for sets in (world.driver, world.janitor, world.driver)
    ]

    assert len(set(tickets)) == 1
    ledgers = [write_ledger(world.driver, one, partition=n) for n, one in enumerate(tickets)]
    world.driver.commit(tickets[0], SCHEMA, ledgers)
    with pytest.raises(LoadAbortedError):
        world.driver.begin(NAME, stream="s", batch_id=0, load_id=load_id)


def test_a_load_id_is_for_micro_batches_only(world: World) -> None:
    with pytest.raises(InvalidOptionError):
        world.driver.begin(NAME, load_id=world.driver.new_load_id(TTL_MS))


def test_a_late_task_that_begins_a_committed_and_forgotten_batch_anew_harms_nothing(
    world: World,
) -> None:
    load_id = new_load_id(world.clock.now_ms + 10, "0" * 32)
    ticket = world.driver.begin(NAME, stream="s", batch_id=0, load_id=load_id)
    ledger = write_ledger(world.driver, ticket)
    world.driver.commit(ticket, SCHEMA, [ledger])
    world.clock.now_ms += 10
    world.janitor.begin(NAME)  # forgets it
    assert world.state(ticket) is None
    late = Load(
        load_id=load_id, data_set_id=ticket.data_set_id, kind=ticket.kind, base_version=0,
        first_ledger_id=0, started_ms=0, expires_ms=world.clock.now_ms, who="", stream="s",
        batch_id=0,
    )  # fmt: skip
    path = load_path(NAME, ticket.data_set_id, load_id)
    world.clients[0].store.create(path, encode(late))  # a task that slept since before the commit

    world.janitor.begin(NAME)  # settles it: it is expired

    assert world.state(ticket) is None
    assert world.readable() == [1]
    world.clients[0].store.create(path, encode(late))
    assert world.driver.commit(ticket, SCHEMA, [ledger]).current_version == 1
    world.janitor.collect(NAME)
    assert world.readable() == [1]
