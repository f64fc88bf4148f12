"""A cluster of real bookies that require keys: who gets what, and who loses it when."""

from collections.abc import Iterator

import pytest
import zmq

import zbk
from tests.support.cluster import QUICK
from tests.support.http import Scrape
from tests.support.secure_cluster import Keyring, is_refused
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.connect import open_store


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    return Keyring.of(tmp_path_factory.mktemp("keys"), "bookie", "alice", "mallory")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, keys: Keyring) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    flags = ("--key", keys.path("bookie"))
    with LocalCluster(folder, bookie_options=QUICK, bookie_flags=flags) as running:
        keys.admit(running, "alice", "alice", "operator")
        yield running


def test_a_principal_writes_and_reads(cluster: LocalCluster, keys: Keyring) -> None:
    with keys.connect(cluster, "alice") as client:
        with client.create_ledger() as ledger:
            ledger.append_many([b"first", b"second"])
        reader = client.open_ledger(ledger.ledger_id)

        assert [entry.payload for entry in reader.read(0, 1)] == [b"first", b"second"]
        assert {one.security for one in client.list_bookies()} == {"required"}


def test_the_registration_and_the_cookie_have_the_public_key(
    cluster: LocalCluster, keys: Keyring
) -> None:
    store = open_store(cluster.metadata_uri)
    registry = BookieRegistry(store)
    try:
        for bookie_id, found in registry.available().items():
            cookie = registry.read_stored_cookie(bookie_id)
            assert cookie is not None
            assert found.public_key == keys.public("bookie").public_key == cookie.public_key
    finally:
        store.close()


def test_a_client_without_a_key_learns_at_once_that_it_needs_one(cluster: LocalCluster) -> None:
    with zbk.connect(cluster.metadata_uri) as client:
        bookie_id = client.list_bookies()[0].bookie_id
        with pytest.raises(zbk.SecurityMismatchError, match="give one with --key"):
            client.bookie_info(bookie_id)
        with pytest.raises(zbk.NotEnoughBookiesError, match="give one with --key"):
            client.create_ledger().append(b"x")


def test_a_stranger_reads_nothing(cluster: LocalCluster, keys: Keyring) -> None:
    with keys.connect(cluster, "alice") as client, client.create_ledger() as ledger:
        ledger.append(b"secret")
    with keys.connect(cluster, "mallory") as client, pytest.raises(zbk.ZbkError) as found:
        list(client.open_ledger(ledger.ledger_id).read(0, 0))
    assert keys.public("mallory").public_key in str(found.value)


def test_strangers_are_counted(cluster: LocalCluster, keys: Keyring) -> None:
    bookie = cluster.bookies[0]
    before = Scrape(bookie.http)
    with (
        keys.connect(cluster, "mallory") as client,
        pytest.raises(zbk.KeyRefusedError),
    ):
        client.bookie_info(bookie.bookie_id)
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.connect(bookie.address)
    try:
        for name in ("zbk_bookie_keys_refused_total", "zbk_bookie_handshakes_failed_total"):
            wait_until(lambda: Scrape(bookie.http).total(name) > before.total(name))  # noqa: B023
    finally:
        context.destroy(linger=0)


def test_a_removed_key_is_cut_off_in_the_middle_of_its_work(
    cluster: LocalCluster, keys: Keyring
) -> None:
    keys.make("bob")
    keys.admit(cluster, "bob", "bob")
    with keys.connect(cluster, "alice") as alice, keys.connect(cluster, "bob") as bob:
        hers, his = alice.create_ledger(), bob.create_ledger()
        hers.append(b"x")
        his.append(b"x")
        keys.remove(cluster, "bob", "bob")

        bookie_ids = [one.bookie_id for one in bob.list_bookies()]
        wait_until(lambda: all(is_refused(bob, one) for one in bookie_ids), timeout_s=1.0)
        with pytest.raises(zbk.ZbkError):
            his.append(b"y")
        hers.append(b"y")
        hers.close()
