"""A cluster's first nodes: whole or not at all, once."""

import threading
from collections.abc import Iterator

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import CorruptRecordError, InvalidOptionError, MetadataUnavailableError
from zbk.metadata.paths import AVAILABLE, LAYOUT
from zbk.metadata.records.instance import (
    initialise,
    initialise_new,
    instance_id,
    read_layout,
)
from zbk.metadata.values import Layout, LedgerLayout

FLAT = Layout(ledger_layout=LedgerLayout.FLAT)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryTree("test").open_session()
    yield store
    store.close()


def test_a_new_cluster_is_hierarchical_and_has_an_id_for_good(store: MemoryStore) -> None:
    made = initialise(store)

    assert initialise(store) == instance_id(store) == made
    assert len(made) == 36
    assert read_layout(store).ledger_layout is LedgerLayout.HIERARCHICAL
    assert store.children("/") == [
        "INSTANCEID",
        "LAYOUT",
        "available",
        "cookies",
        "datasets",
        "grants",
        "idgen",
        "ledgers",
        "logs",
        "underreplication",
    ]


def test_who_does_not_care_takes_the_layout_that_is_there(store: MemoryStore) -> None:
    made = initialise(store, FLAT)

    assert initialise(store) == made
    assert read_layout(store) == FLAT


def test_another_layout_than_the_one_that_is_there_is_refused(store: MemoryStore) -> None:
    initialise(store)

    with pytest.raises(InvalidOptionError, match="was created with hierarchical"):
        initialise(store, FLAT)


@pytest.mark.parametrize("there", [Layout(), FLAT])
def test_a_new_cluster_is_refused_where_one_is(store: MemoryStore, there: Layout) -> None:
    made = initialise(store, there)

    with pytest.raises(InvalidOptionError, match=f"holds cluster {made} already, with layout"):
        initialise_new(store, FLAT)

    assert (instance_id(store), read_layout(store)) == (made, there)


def test_a_new_cluster_whose_reply_was_lost_is_still_ours(store: MemoryStore) -> None:
    store.lose_next_reply()

    made = initialise_new(store, FLAT)

    assert (instance_id(store), read_layout(store)) == (made, FLAT)


def test_a_new_cluster_is_refused_where_something_else_is(store: MemoryStore) -> None:
    store.create("/cookies")

    with pytest.raises(InvalidOptionError, match="neither empty nor zbk's"):
        initialise_new(store, FLAT)


def test_of_many_who_race_one_makes_the_cluster_and_all_find_it() -> None:
    tree = MemoryTree("race")
    start = threading.Barrier(4)
    found: list[str] = []

    def race() -> None:
        own = tree.open_session()
        start.wait(10)
        found.append(initialise(own))
        own.close()

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_lost_reply_is_looked_up(store: MemoryStore) -> None:
    store.lose_next_reply()

    assert initialise(store) == instance_id(store)


def test_what_was_not_made_is_made_again_a_few_times(store: MemoryStore) -> None:
    store.fail_next(1)
    assert initialise(store) == instance_id(store)


def test_a_store_that_does_not_answer_is_not_there(store: MemoryStore) -> None:
    store.suspend()

    with pytest.raises(MetadataUnavailableError):
        initialise(store)


def test_a_place_that_holds_something_else_is_left_alone(store: MemoryStore) -> None:
    store.create(AVAILABLE)

    with pytest.raises(InvalidOptionError, match="neither empty nor zbk's"):
        initialise(store)
    assert store.children("/") == ["available"]


def test_a_cluster_of_bookkeeper_is_not_taken_for_ours(store: MemoryStore) -> None:
    store.create(LAYOUT, b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")

    with pytest.raises(CorruptRecordError, match="/LAYOUT"):
        initialise(store)


def test_no_cluster_is_no_instance(store: MemoryStore) -> None:
    with pytest.raises(InvalidOptionError, match="holds no cluster yet"):
        instance_id(store)
