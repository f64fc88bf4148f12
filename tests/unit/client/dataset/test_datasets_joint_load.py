"""Loads that nobody drives: all who take part begin them, as tasks of a micro-batch do."""

from collections.abc import Iterator

import pytest

from tests.support.fake_data_sets import SCHEMA, Clock, FakeDataSetClient, write_ledger
from tests.support.memory_store import MemoryTree
from zbk.client.dataset.datasets import DataSets, LoadTicket
from zbk.errors import LoadAbortedError
from zbk.metadata.records.ledgers import initialise
from zbk.protocol.dataset.dataset import LoadKind, LoadState

NAME = "events"


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
