"""The record of the principals: changed in one step, watched by bookies."""

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.waiting import wait_until
from zbk.errors import CorruptRecordError, InvalidOptionError, NoSuchPrincipalError
from zbk.metadata.paths import PRINCIPALS
from zbk.metadata.records.principals import PrincipalStore
from zbk.security.principals import Principal, with_key, without

KEY, NEXT = "a" * 40, "b" * 40


def test_a_new_cluster_has_none() -> None:
    assert PrincipalStore(MemoryStore(MemoryTree())).all() == ()


def test_a_change_is_kept() -> None:
    store = MemoryStore(MemoryTree())
    PrincipalStore(store).change(lambda now: with_key(now, "alice", KEY, ["operator"]))
    after = PrincipalStore(store).change(lambda now: with_key(now, "bob", NEXT))

    assert PrincipalStore(store).all() == after
    assert [one.name for one in after] == ["alice", "bob"]


def test_a_change_that_fails_writes_nothing() -> None:
    store = MemoryStore(MemoryTree())
    principals = PrincipalStore(store)
    before = principals.change(lambda now: with_key(now, "alice", KEY))

    with pytest.raises(NoSuchPrincipalError):
        principals.change(lambda now: without(now, "bob"))
    with pytest.raises(InvalidOptionError):
        principals.change(lambda now: (*now, Principal(name="bob", keys=(KEY,))))

    assert principals.all() == before


def test_two_that_change_at_once_both_succeed() -> None:
    store = MemoryStore(MemoryTree())
    principals = PrincipalStore(store, pause=lambda _seconds: None)
    is_disturbed: list[bool] = []

    def disturbed(now: tuple[Principal, ...]) -> tuple[Principal, ...]:
        if not is_disturbed:
            is_disturbed.append(True)
            PrincipalStore(store).change(lambda other: with_key(other, "bob", NEXT))
        return with_key(now, "alice", KEY)

    after = principals.change(disturbed)

    assert [one.name for one in after] == ["alice", "bob"]


def test_a_watch_reports_each_change() -> None:
    store = MemoryStore(MemoryTree())
    seen: list[tuple[Principal, ...]] = []
    watch = PrincipalStore(store).watch(seen.append)
    wait_until(lambda: seen == [()])
    made = PrincipalStore(store).change(lambda now: with_key(now, "alice", KEY))

    wait_until(lambda: bool(seen) and seen[-1] == made)
    watch.cancel()


def test_a_damaged_record_is_neither_read_nor_reported() -> None:
    store = MemoryStore(MemoryTree())
    principals = PrincipalStore(store)
    principals.change(lambda now: with_key(now, "alice", KEY))
    seen: list[tuple[Principal, ...]] = []
    watch = principals.watch(seen.append)
    wait_until(lambda: len(seen) == 1)
    node = store.get(PRINCIPALS)
    store.set(PRINCIPALS, node.value[:-1], node.version)

    with pytest.raises(CorruptRecordError):
        principals.all()
    with pytest.raises(CorruptRecordError):
        principals.change(lambda now: now)
    assert len(seen) == 1
    watch.cancel()
