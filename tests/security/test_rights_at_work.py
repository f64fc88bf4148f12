"""What applications and repair do with rights, on real bookies: logs, namespaces, lost bookies."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.integration.test_repair import Worker, kill_for_good
from tests.support.cluster import QUICK
from tests.support.lost_bookies import Ledgers
from tests.support.secure_cluster import Keyring, change_namespaces
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import LocalCluster
from zbk.config import ClientConfig
from zbk.protocol.ledger.access import grants_of
from zbk.security.namespaces import Namespace

PRINCIPALS = {"alice": (), "bob": (), "carol": (), "worker": ("bookie",)}
ORDERS = {
    "alice": ["append", "read", "recover"],
    "bob": ["append", "read", "recover"],
    "carol": ["read"],
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    return Keyring.of(tmp_path_factory.mktemp("keys"), "host", *PRINCIPALS)


def set_up(cluster: LocalCluster, keys: Keyring) -> None:
    for name, roles in PRINCIPALS.items():
        keys.admit(cluster, name, name, *roles)
    orders = Namespace(path="orders", grants=grants_of(ORDERS))
    change_namespaces(cluster, lambda _now: (orders,))
    keys.wait_for(cluster, *PRINCIPALS)


@pytest.fixture
def cluster(tmp_path: Path, keys: Keyring) -> Iterator[LocalCluster]:
    """Five bookies: one to lose, and one to spare."""
    flags = ("--key", keys.path("host"))
    folder = tmp_path / "data"
    with LocalCluster(folder, bookie_count=5, bookie_options=QUICK, bookie_flags=flags) as running:
        set_up(running, keys)
        yield running


def test_a_worker_with_the_role_bookie_repairs_the_ledgers_of_others(
    cluster: LocalCluster, keys: Keyring
) -> None:
    config = ClientConfig(key=keys.path("worker"))
    victim = cluster.bookies[0].bookie_id
    with (
        zbk.connect(
            cluster.metadata_uri, key=keys.path("alice"), request_timeout_ms=1_000
        ) as alice,
        ClusterConnection(cluster.metadata_uri, config) as connection,
    ):
        ledgers = Ledgers(alice, victim)
        kill_for_good(cluster, connection, 0)
        with Worker(connection) as worker:
            worker.make_whole(ledgers, victim)

        ledgers.check_whole_without(victim)
        owners = {alice.get_ledger_metadata(one).known_access.owner for one in ledgers.contents}
        assert owners == {"alice"}


def test_a_log_in_a_namespace_changes_its_owner_and_has_readers(
    cluster: LocalCluster, keys: Keyring
) -> None:
    with (
        keys.connect(cluster, "alice") as alice,
        keys.connect(cluster, "bob") as bob,
        keys.connect(cluster, "carol") as carol,
    ):
        first = alice.open_log("orders", namespace="orders/eu")
        first.append(b"of alice")
        second = bob.open_log("orders", namespace="orders/eu")  # recovers the ledger of alice
        second.append(b"of bob")
        with pytest.raises(zbk.LogFencedError):
            first.append(b"late")
        second.close()

        read = [bytes(one.payload) for one in carol.read_log("orders")]
        assert read == [b"of alice", b"of bob"]
        with pytest.raises(
            zbk.NamespaceDeniedError, match="zbk namespace grant orders carol append"
        ):
            carol.open_log("orders", namespace="orders/eu")


def test_changes_reach_bookies_on_zookeeper_within_a_second(tmp_path: Path, keys: Keyring) -> None:
    flags = ("--key", keys.path("host"))
    with LocalCluster(
        tmp_path / "data", use_zookeeper=True, bookie_options=QUICK, bookie_flags=flags
    ) as cluster:
        set_up(cluster, keys)
        with keys.connect(cluster, "alice") as alice, keys.connect(cluster, "carol") as carol:
            with alice.create_ledger() as hers:
                hers.append(b"x")
            with alice.create_ledger(namespace="orders") as order:
                order.append(b"x")

            assert not may_read(carol, hers.ledger_id)
            assert may_read(carol, order.ledger_id)
            alice.grant(hers.ledger_id, "*", ["read"])
            wait_until(lambda: may_read(carol, hers.ledger_id), timeout_s=1.0)
            alice.revoke(hers.ledger_id, "*")
            wait_until(lambda: not may_read(carol, hers.ledger_id), timeout_s=1.0)
            change_namespaces(cluster, lambda _now: ())
            wait_until(lambda: not may_read(carol, order.ledger_id), timeout_s=1.0)


def may_read(client: zbk.Client, ledger_id: int) -> bool:
    try:
        list(client.open_ledger(ledger_id).read(0, 0))
    except zbk.AccessDeniedError:
        return False
    return True
