"""Limits of namespaces: counted in the step that creates, closes or deletes a ledger."""

import msgspec
import pytest

from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import (
    InvalidOptionError,
    MetadataUnavailableError,
    NamespaceFullError,
    NoSuchNamespaceError,
)
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.namespace_usage import UsageStore, usage_path
from zbk.metadata.records.namespaces import NamespaceStore
from zbk.protocol.ledger.access import LedgerAccess
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.security.namespaces import Namespace


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(MemoryTree())
    initialise(made)
    NamespaceStore(made).change(lambda _none: (Namespace(path="orders"),))
    return made


def create(store: MemoryStore, namespace: str, count: int = 1) -> int:
    """Create ledgers in a namespace; return the id of the first one."""
    make = metadata_maker()

    def owned(ledger_id: int) -> LedgerMetadata:
        return make(ledger_id).owned(LedgerAccess(owner="alice", namespace=namespace))

    return LedgerStore(store).create_many(owned, count)[0][0].ledger_id


def close(store: MemoryStore, ledger_id: int, length: int) -> None:
    LedgerStore(store).update(ledger_id, lambda now: now.with_closed(0, length))


def used(store: MemoryStore, namespace: str) -> tuple[int, int]:
    usage = UsageStore(store).read(namespace)
    assert usage is not None
    return usage.ledger_count, usage.size


def test_a_namespace_takes_no_more_ledgers_than_it_may_have(store: MemoryStore) -> None:
    UsageStore(store).set_limits("orders", 3, 0)
    first = create(store, "orders", 2)
    create(store, "orders/eu")

    for namespace in ("orders", "orders/us"):
        with pytest.raises(NamespaceFullError, match="namespace 'orders' has 3 ledgers"):
            create(store, namespace)
    create(store, "sales")
    create(store, "ordersx")
    LedgerStore(store).delete_counted(first)
    create(store, "orders/us")

    assert used(store, "orders") == (3, 0)


def test_a_batch_is_created_as_a_whole_or_not_at_all(store: MemoryStore) -> None:
    UsageStore(store).set_limits("orders", 3, 0)

    with pytest.raises(NamespaceFullError):
        create(store, "orders", 4)

    assert used(store, "orders") == (0, 0)
    assert list(LedgerStore(store).list()) == []


def test_the_bytes_of_closed_ledgers_count(store: MemoryStore) -> None:
    UsageStore(store).set_limits("orders", 0, 100)
    first, second = create(store, "orders"), create(store, "orders")
    close(store, first, 60)
    create(store, "orders")
    close(store, second, 70)  # an open ledger may exceed it

    assert used(store, "orders") == (3, 130)
    with pytest.raises(NamespaceFullError, match="100 bytes"):
        create(store, "orders")
    LedgerStore(store).delete_counted(second)
    create(store, "orders")
    assert used(store, "orders") == (3, 60)


def test_a_part_and_the_whole_have_limits_of_their_own(store: MemoryStore) -> None:
    usages = UsageStore(store)
    usages.set_limits("orders", 9, 0)
    usages.set_limits("orders/eu", 1, 0)
    create(store, "orders/eu")

    with pytest.raises(NamespaceFullError, match="'orders/eu' has 1 ledgers"):
        create(store, "orders/eu/2024")
    create(store, "orders")
    assert (used(store, "orders"), used(store, "orders/eu")) == ((2, 0), (1, 0))


def test_ledgers_that_were_there_before_are_not_counted(store: MemoryStore) -> None:
    before = create(store, "orders")
    usages = UsageStore(store)
    usages.set_limits("orders", 1, 0)
    create(store, "orders")
    close(store, before, 50)
    LedgerStore(store).delete_counted(before)

    assert used(store, "orders") == (1, 0)
    usages.set_limits("orders", 2, 7)  # goes on counting
    assert used(store, "orders") == (1, 0)
    usages.remove("orders")
    create(store, "orders", 5)
    assert usages.read("orders") is None


def test_a_lost_reply_counts_once(store: MemoryStore) -> None:
    UsageStore(store).set_limits("orders", 0, 1_000)
    store.lose_next_reply()
    first = create(store, "orders")
    store.lose_next_reply()
    close(store, first, 10)
    assert used(store, "orders") == (1, 10)

    store.lose_next_reply()
    LedgerStore(store).delete_counted(first)
    assert used(store, "orders") == (0, 0)


def test_a_store_that_fails_counts_nothing(store: MemoryStore) -> None:
    UsageStore(store).set_limits("orders", 0, 1_000)
    ledger_id = create(store, "orders")
    store.fail_next()

    with pytest.raises(MetadataUnavailableError):
        LedgerStore(store).create(
            lambda number: msgspec.structs.replace(
                LedgerStore(store).read(ledger_id)[0], ledger_id=number, creation_token="other"
            )
        )

    assert used(store, "orders") == (1, 0)


@pytest.mark.parametrize(("namespace", "limits"), [("default", (1, 1)), ("orders", (-1, 0))])
def test_impossible_limits_are_refused(
    store: MemoryStore, namespace: str, limits: tuple[int, int]
) -> None:
    with pytest.raises(InvalidOptionError):
        UsageStore(store).set_limits(namespace, *limits)
    assert UsageStore(store).read(namespace) is None


def test_a_cluster_without_namespaces_has_no_limits() -> None:
    store = MemoryStore(MemoryTree())
    initialise(store)

    with pytest.raises(NoSuchNamespaceError):
        UsageStore(store).set_limits("orders", 1, 1)
    assert NamespaceStore(store).all() == ()


def test_a_path_is_one_node() -> None:
    assert usage_path("a/b-c/d") == "/namespaces/a:b-c:d"
