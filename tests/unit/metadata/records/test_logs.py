"""LogStore on a store in memory that fails on cue."""

from collections.abc import Iterator

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import (
    CorruptRecordError,
    InvalidOptionError,
    MetadataConflictError,
    MetadataUnavailableError,
)
from zbk.metadata.paths import NAME_SIZE_MAX, log_list_path, log_path
from zbk.metadata.records.compare_and_swap import ATTEMPT_COUNT_MAX
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.logs import LogStore
from zbk.metadata.values import encode
from zbk.protocol.log.metadata import LogMetadata


class Cluster:
    """A tree, and two clients of it."""

    def __init__(self) -> None:
        self.tree = MemoryTree("logs")
        self.store = self.tree.open_session()
        self.other_store = self.tree.open_session()
        initialise(self.store)
        self.pauses_s: list[float] = []
        self.logs = self.client(self.store)
        self.others = self.client(self.other_store)

    def client(self, store: MemoryStore) -> LogStore:
        return LogStore(store, pause=self.pauses_s.append)

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def test_a_create_whose_reply_was_lost_is_found_again(cluster: Cluster) -> None:
    cluster.logs.create("first", 0)  # makes the parent
    cluster.store.lose_next_reply()

    cluster.logs.create("orders", 0)

    assert cluster.others.read("orders")[0].ledger_ids == ()


def test_a_create_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.store.fail_next()

    cluster.logs.create("orders", 0)

    assert cluster.logs.list() == ["orders"]


def test_a_create_of_which_nobody_knows_says_so(cluster: Cluster) -> None:
    cluster.store.fail_next(2)  # the multi, and the reading back

    with pytest.raises(MetadataUnavailableError):
        cluster.logs.create("orders", 0)


def test_an_update_whose_reply_was_lost_is_made_once(cluster: Cluster) -> None:
    cluster.logs.create("orders", 0)
    log, version = cluster.logs.read("orders")
    cluster.logs.write(log.with_ledger(1).with_ledger(2).with_ledger(3), version)
    cluster.store.lose_next_reply()
    calls: list[LogMetadata] = []

    def cut(current: LogMetadata) -> LogMetadata:
        calls.append(current)
        return current.without_first(1)

    before, after = cluster.logs.update("orders", cut)

    assert len(calls) == 1
    assert (before.ledger_ids, after.ledger_ids) == ((1, 2, 3), (2, 3))
    assert cluster.others.read("orders")[0] == after


def test_a_delete_whose_reply_was_lost_is_known_to_be_done(cluster: Cluster) -> None:
    cluster.logs.create("orders", 0)
    cluster.store.lose_next_reply()

    assert cluster.logs.delete("orders").name == "orders"
    assert cluster.others.list() == []


def test_a_write_whose_reply_was_lost_is_for_the_owner_to_judge(cluster: Cluster) -> None:
    cluster.logs.create("orders", 0)
    log, version = cluster.logs.read("orders")
    cluster.store.lose_next_reply()

    with pytest.raises(MetadataUnavailableError):
        cluster.logs.write(log.with_ledger(1), version)
    assert cluster.others.read("orders") == (log.with_ledger(1), version + 1)


def test_endless_conflicts_end(cluster: Cluster) -> None:
    cluster.logs.create("orders", 0)

    def change(current: LogMetadata) -> LogMetadata:
        found, version = cluster.others.read("orders")
        cluster.others.write(found.with_ledger(len(found.ledger_ids)), version)
        return current.with_ledger(10**6)

    with pytest.raises(MetadataConflictError):
        cluster.logs.update("orders", change)
    assert len(cluster.pauses_s) >= ATTEMPT_COUNT_MAX


def test_a_list_that_is_another_one_s_is_damage(cluster: Cluster) -> None:
    cluster.logs.create("orders", 0)
    log, version = cluster.logs.read("orders")
    wrong = LogMetadata(name="other", log_id=log.log_id, created_ms=0)
    cluster.store.set(log_list_path("orders", log.log_id), encode(wrong), version)

    with pytest.raises(CorruptRecordError):
        cluster.logs.read("orders")


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "-a", "a b", "x" * 129, "\xe4"])
def test_a_name_that_can_be_no_node_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(InvalidOptionError):
        cluster.logs.create(name, 0)


@pytest.mark.parametrize("name", ["a", "0", "orders.eu:1_2-3", "x" * NAME_SIZE_MAX])
def test_a_name_is_the_name_of_a_node(name: str) -> None:
    assert log_path(name) == f"/logs/{name}"
