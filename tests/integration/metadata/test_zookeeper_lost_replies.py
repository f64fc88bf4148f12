"""Replies of a real ZooKeeper that get lost after it did what it was asked for."""

import pytest

from tests.support.ledgers import metadata_maker
from tests.support.zookeeper_proxy import CREATE, DELETE, GET, MULTI, SET, ZooKeeperProxy
from zbk.errors import BadVersionError, MetadataUnavailableError, NoSuchLedgerError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import LedgerStore, initialise, instance_id
from zbk.metadata.stores.store import Node
from zbk.metadata.stores.zookeeper import ZooKeeperStore
from zbk.metadata.values import BookieRegistration, Cookie
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata

COOKIE = Cookie(
    bookie_id="b1", instance_id="i", journal_dirs=("/j",), ledger_dirs=("/l",), created_ms=1
)
BOOKIE = BookieRegistration(
    bookie_id="b1",
    address="tcp://127.0.0.1:1",
    incarnation=1,
    is_readonly=False,
    started_ms=1,
    version="0",
)


@pytest.fixture
def store(proxied: ZooKeeperStore) -> ZooKeeperStore:
    """A store whose connection goes through the proxy."""
    return proxied


def test_a_write_whose_reply_was_lost_is_unknown_and_the_next_read_shows_it(
    proxy: ZooKeeperProxy, store: ZooKeeperStore
) -> None:
    store.create("/a", b"0")
    proxy.lose_next_reply(SET)

    with pytest.raises(MetadataUnavailableError) as caught:
        store.set("/a", b"1", 0)
    assert caught.value.outcome == "unknown"
    assert store.get("/a") == Node(b"1", 1)
    with pytest.raises(BadVersionError):  # what a blind repetition would have been told
        store.set("/a", b"1", 0)


def test_a_read_whose_reply_was_lost_is_asked_again(
    proxy: ZooKeeperProxy, store: ZooKeeperStore
) -> None:
    store.create("/a", b"0")
    proxy.lose_next_reply(GET)

    assert store.get("/a") == Node(b"0", 0)
    assert proxy.reply_was_lost.is_set()


def test_a_ledger_whose_create_lost_its_reply_is_made_once(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    initialise(direct)
    ledgers = LedgerStore(store)
    ledgers.create(metadata_maker())
    proxy.lose_next_reply(MULTI)

    created, version = ledgers.create(metadata_maker())

    assert proxy.reply_was_lost.is_set()
    assert (created.ledger_id, version) == (1, 0)
    assert list(LedgerStore(direct).list()) == [0, 1]
    assert LedgerStore(direct).read(1) == (created, 0)


def test_an_update_that_lost_its_reply_is_made_once(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    initialise(direct)
    ledgers = LedgerStore(store)
    ledgers.create(metadata_maker())
    calls: list[LedgerState] = []

    def recover(now: LedgerMetadata) -> LedgerMetadata:
        calls.append(now.state)
        return now.with_recovery()

    proxy.lose_next_reply(SET)
    recovering, version = ledgers.update(0, recover)

    assert proxy.reply_was_lost.is_set()
    assert (recovering.state, version) == (LedgerState.IN_RECOVERY, 1)
    assert calls == [LedgerState.OPEN]
    assert LedgerStore(direct).read(0) == (recovering, 1)


def test_a_claim_that_lost_its_reply_is_still_the_one_claim(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    initialise(direct)
    LedgerStore(direct).create(metadata_maker(has_writer=False))
    proxy.lose_next_reply(SET)

    assert LedgerStore(store).update(0, LedgerMetadata.with_writer)[0].has_writer
    assert proxy.reply_was_lost.is_set()


def test_a_delete_that_lost_its_reply_is_done(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    initialise(direct)
    ledgers = LedgerStore(store)
    ledgers.create(metadata_maker())
    proxy.lose_next_reply(DELETE)

    ledgers.delete(0)

    assert proxy.reply_was_lost.is_set()
    with pytest.raises(NoSuchLedgerError):
        LedgerStore(direct).read(0)


def test_a_cluster_whose_making_lost_its_reply_is_made_once(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    proxy.lose_next_reply(MULTI)

    assert initialise(store) == instance_id(direct)
    assert proxy.reply_was_lost.is_set()


def test_a_cookie_and_a_registration_that_lost_their_replies_are_ours(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    initialise(direct)
    registry = BookieRegistry(store)
    proxy.lose_next_reply(CREATE)
    registry.create_cookie(COOKIE)
    assert proxy.reply_was_lost.wait(5)

    proxy.reply_was_lost.clear()
    proxy.lose_next_reply(CREATE)
    registration = registry.register(BOOKIE)

    assert proxy.reply_was_lost.is_set()
    assert BookieRegistry(direct).cookies() == {"b1": COOKIE}
    assert BookieRegistry(direct).available() == {"b1": BOOKIE}
    registration.close()
