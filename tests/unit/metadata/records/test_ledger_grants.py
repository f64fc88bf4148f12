"""Grants of ledgers and namespaces: changed in one step with the news of it."""

from collections.abc import Sequence

import msgspec
import pytest

from tests.support.ledger_states import OPEN
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.waiting import wait_until
from zbk.errors import CorruptRecordError, NoSuchLedgerError, NoSuchNamespaceError
from zbk.metadata.paths import NAMESPACES
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledger_grants import LedgerGrants
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.namespaces import NamespaceStore
from zbk.protocol.ledger.access import Grants, Right
from zbk.security.namespaces import Namespace, granted, with_namespace

BOB_READS = {"bob": (Right.READ,)}


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(MemoryTree())
    initialise(made)
    for _ in range(2):
        LedgerStore(made).create(lambda number: msgspec.structs.replace(OPEN, ledger_id=number))
    return made


def test_a_grant_is_kept_with_the_ledger(store: MemoryStore) -> None:
    made = LedgerGrants(store).change(1, lambda _now: BOB_READS)

    assert LedgerStore(store).read(1)[0] == made
    assert (made.known_access.grants, made.format_version) == (BOB_READS, 4)
    assert LedgerStore(store).read(0)[0].format_version == 2


def test_each_change_is_news(store: MemoryStore) -> None:
    seen: list[Sequence[int] | None] = []
    grants = LedgerGrants(store)
    watch = grants.watch(seen.append)
    wait_until(lambda: seen == [None])
    for ledger_id in (1, 0):
        grants.change(ledger_id, lambda _now: BOB_READS)
        wait_until(lambda: seen[-1] == (ledger_id,))  # noqa: B023 - within the loop
    grants.change(0, lambda now: now.known_access.grants)  # the same: no news
    grants.change(1, lambda _now: {})
    wait_until(lambda: seen == [None, (1,), (0,), (1,)])
    watch.cancel()


def test_a_change_beside_another_one_is_made_again(store: MemoryStore) -> None:
    grants = LedgerGrants(store)
    seen: list[Sequence[int] | None] = []
    is_disturbed: list[bool] = []

    def disturbed(_now: object) -> Grants:
        if not is_disturbed:
            is_disturbed.append(True)
            LedgerGrants(store).change(0, lambda _other: BOB_READS)
        return BOB_READS

    grants.change(1, disturbed)

    watch = grants.watch(seen.append)
    wait_until(lambda: seen == [None])
    watch.cancel()
    assert [LedgerStore(store).read(one)[0].known_access.grants for one in (0, 1)] == [
        BOB_READS
    ] * 2


def test_an_unknown_ledger_gets_no_grant(store: MemoryStore) -> None:
    with pytest.raises(NoSuchLedgerError):
        LedgerGrants(store).change(9, lambda _now: BOB_READS)


def test_namespaces_are_kept_and_watched(store: MemoryStore) -> None:
    namespaces, seen = NamespaceStore(store), list[tuple[Namespace, ...]]()
    watch = namespaces.watch(seen.append)
    wait_until(lambda: seen == [()])
    namespaces.change(lambda now: with_namespace(now, Namespace(path="orders")))
    after = namespaces.change(lambda now: granted(now, "orders", "bob", [Right.READ]))

    wait_until(lambda: seen[-1] == after)
    watch.cancel()
    assert namespaces.all() == after == (Namespace(path="orders", grants=BOB_READS),)
    with pytest.raises(NoSuchNamespaceError):
        namespaces.change(lambda now: granted(now, "sales", "bob", [Right.READ]))


def test_damage_is_no_absence(store: MemoryStore) -> None:
    store.create(NAMESPACES, b"damage")

    with pytest.raises(CorruptRecordError):
        NamespaceStore(store).all()
