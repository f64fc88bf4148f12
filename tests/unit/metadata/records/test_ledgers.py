"""LedgerStore reads, deletes, lists and watches ledgers on a store in memory that fails on cue."""

from collections.abc import Callable, Sequence

import pytest

from tests.support.ledger_records import Cluster, cluster
from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.recorder import Recorder
from zbk.errors import (
    CorruptRecordError,
    InvalidOptionError,
    MetadataUnavailableError,
    NoSuchLedgerError,
)
from zbk.metadata.paths import IDGEN, LEDGERS, ledger_path
from zbk.metadata.records.instance import read_layout
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import Operation
from zbk.metadata.values import IdCounter, encode
from zbk.protocol.ledger.metadata import LedgerMetadata

__all__ = ["cluster"]


class Overtaken(MemoryStore):
    """Another client is quicker each time this one takes several steps at once."""

    def __init__(self, tree: MemoryTree, overtake: Callable[[], object]) -> None:
        super().__init__(tree)
        self._overtake = overtake

    def multi(self, operations: Sequence[Operation]) -> None:
        self._overtake()
        super().multi(operations)


# ------------------------------------------------------------------ read


def test_no_such_ledger_is_said_only_on_an_answer(cluster: Cluster) -> None:
    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.read(99)

    cluster.store.suspend()
    with pytest.raises(MetadataUnavailableError):
        cluster.ledgers.read(99)


def test_metadata_under_another_ledgers_path_is_damage(cluster: Cluster) -> None:
    first, second = (cluster.ledgers.create(metadata_maker())[0].ledger_id for _ in range(2))
    path = cluster.ledgers._path(second)
    cluster.store.set(path, cluster.store.get(cluster.ledgers._path(first)).value, version=0)

    with pytest.raises(CorruptRecordError, match="of ledger 0"):
        cluster.ledgers.read(second)


# ------------------------------------------------------------------ delete and list


def test_a_delete_whose_reply_was_lost_is_done(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    cluster.store.lose_next_reply()

    cluster.ledgers.delete(0)

    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.delete(0)


def test_a_delete_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    assert list(cluster.ledgers.list()) == [0]
    cluster.store.fail_next()

    cluster.ledgers.delete(0)

    assert list(cluster.ledgers.list()) == []


def test_deleting_the_last_ledger_below_a_node_removes_the_node(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.ledgers.create(metadata_maker())
    cluster.ledgers.delete(0)
    assert cluster.store.children(LEDGERS) != []
    cluster.ledgers.delete(1)
    assert cluster.store.children(LEDGERS) == []

    assert cluster.ledgers.create(metadata_maker())[0].ledger_id == 2


def test_the_deletion_of_the_last_ledger_is_noted_until_one_is_made(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.ledgers.create(metadata_maker())

    cluster.ledgers.delete(1)
    assert not cluster.others.counter().is_emptied
    cluster.ledgers.delete(0)
    assert cluster.others.counter() == IdCounter(next_ledger_id=2, is_emptied=True)
    assert list(cluster.others.list()) == []

    assert cluster.others.create(metadata_maker())[0].ledger_id == 2
    assert cluster.ledgers.counter() == IdCounter(next_ledger_id=3)
    assert cluster.store.get(IDGEN).value == encode(IdCounter(next_ledger_id=3)), "as ever"


def test_what_vanishes_otherwise_leaves_no_note(cluster: Cluster) -> None:
    layout = read_layout(cluster.store).ledger_layout
    cluster.ledgers.create(metadata_maker())
    cluster.store.delete(ledger_path(0, layout))

    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.delete(0)

    assert list(cluster.ledgers.list()) == []
    assert not cluster.ledgers.counter().is_emptied


def test_a_ledger_made_while_the_last_one_is_deleted_leaves_no_note(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    store = Overtaken(cluster.tree, lambda: cluster.others.create(metadata_maker()))

    cluster.client(store).delete(0)
    store.close()

    assert list(cluster.ledgers.list()) == [1]
    assert not cluster.ledgers.counter().is_emptied


def test_a_listing_is_ascending_and_reads_the_tree_piece_by_piece(cluster: Cluster) -> None:
    wanted = [0, 1, 9_999, 10_000, 123_456_789, 2**31 - 2, 2**31 - 1, 2**31, 2**62]
    for ledger_id in wanted:
        version = cluster.store.get(IDGEN).version
        cluster.store.set(IDGEN, encode(IdCounter(next_ledger_id=ledger_id)), version)
        cluster.ledgers.create(metadata_maker())

    listing = cluster.ledgers.list()
    assert next(listing) == 0
    assert next(listing) == 1
    assert list(listing) == wanted[2:]


def test_a_listing_that_is_cut_off_is_an_error_and_no_short_list(cluster: Cluster) -> None:
    """B32: whoever deletes what is not listed never works from half a list."""
    cluster.ledgers.create(metadata_maker())
    listing = cluster.ledgers.list()
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError):
        list(listing)


def test_a_strange_name_among_the_ledgers_fails_the_listing(cluster: Cluster) -> None:
    """B32: a name that nobody understands may be a ledger."""
    cluster.ledgers.create(metadata_maker())
    cluster.store.create(f"{LEDGERS}/strange")

    with pytest.raises(CorruptRecordError, match="strange"):
        list(cluster.ledgers.list())


# ------------------------------------------------------------------ watch


def test_a_watch_tells_each_change_and_the_end(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    seen: Recorder[tuple[LedgerMetadata, int] | None] = Recorder()
    watch = cluster.ledgers.watch(0, seen)
    seen.wait_last(None)
    created, _ = cluster.others.create(metadata_maker())
    seen.wait_last((created, 0))
    closed, version = cluster.others.update(0, lambda current: current.with_closed(3, 30))
    seen.wait_last((closed, version))

    path = cluster.ledgers._path(0)
    cluster.other_store.set(path, b"damage", version)
    cluster.store.settle()
    assert "watching ledger 0" in caplog.text
    cluster.others.delete(0)

    assert seen.wait_last(None) == [None, (created, 0), (closed, 1), None]
    watch.cancel()
    cluster.others.create(metadata_maker())
    cluster.store.settle()
    assert len(seen.items) == 4


def test_a_store_without_a_cluster_says_what_to_do() -> None:
    store = MemoryTree("empty").open_session()
    ledgers = LedgerStore(store)

    for call in (
        lambda: ledgers.create(metadata_maker()),
        lambda: ledgers.read(0),
        lambda: next(ledgers.list()),
    ):
        with pytest.raises(InvalidOptionError, match="zbk up"):
            call()
    store.close()
