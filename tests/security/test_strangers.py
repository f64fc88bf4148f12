"""Thousands of attempts by those who may not, and nothing that is stored has changed.

A well-behaved client works beside them, and has no error.
"""

import hashlib
from collections.abc import Iterator

import pytest

import zbk
from tests.hostile import strangers
from tests.hostile.reads import MIB, Watch
from tests.hostile.strangers import Attack, Target
from tests.support.cluster import QUICK, lone_ledger
from tests.support.neighbor import Neighbor
from tests.support.secure_cluster import Keyring
from zbk.client.cluster.ledger_calls import LedgerCalls
from zbk.cluster.local import LocalCluster
from zbk.metadata.dumps.export import nodes_of
from zbk.metadata.stores.connect import open_store
from zbk.security.keys import read_pair

RSS_MAX = 300 * MIB
ENTRIES = [b"kept %d" % number for number in range(100)]
SHARES = {
    "no encryption": 2_000,
    "a password": 1_500,
    "encryption by name": 1_500,
    "unknown keys": 1_000,
    "a stolen routing id": 1_000,
    "replayed bytes": 1_000,
    "no right": 1_000,
    "the right to read": 1_000,
}
"""Attempts of each kind: ten thousand together."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    names = ("bookie", "alice", "bob", "reader", "operator")
    return Keyring.of(tmp_path_factory.mktemp("keys"), *names)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, keys: Keyring) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    flags = ("--key", keys.path("bookie"))
    with LocalCluster(folder, bookie_count=1, bookie_options=QUICK, bookie_flags=flags) as running:
        for name in ("alice", "bob", "reader"):
            keys.admit(running, name, name)
        keys.admit(running, "operator", "operator", "operator")
        keys.wait_for(running, "alice", "bob", "reader", "operator")
        yield running


def state_of(cluster: LocalCluster, operator: zbk.Client, ledger_ids: list[int]) -> dict[str, str]:
    """Return hashes of all lasting metadata, and of what the bookie holds of these ledgers."""
    store = open_store(cluster.metadata_uri)
    try:
        found = {one.path: hashed(one.value, one.version) for one in nodes_of(store)}
    finally:
        store.close()
    for ledger_id in ledger_ids:
        info = LedgerCalls(operator._requests, ledger_id).info(cluster.bookies[0].bookie_id)
        with operator.open_ledger(ledger_id) as reader:
            entries = [one.payload for one in reader.read_unconfirmed(0, info.last_entry_id)]
        held = (info.is_known, info.is_fenced, info.lac, info.last_add_synced, info.ranges)
        found[f"ledger {ledger_id}"] = hashed(*held, *entries)
    return found


def hashed(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()


def attacks(target: Target, keys: Keyring) -> dict[str, Attack]:
    alice, bob, reader = (read_pair(keys.path(name)) for name in ("alice", "bob", "reader"))
    return {
        "no encryption": strangers.null(target),
        "a password": strangers.plain(target),
        "encryption by name": strangers.curve_by_name(target),
        "unknown keys": strangers.unknown_key(target),
        "a stolen routing id": strangers.stolen_routing_id(target, bob, alice),
        "replayed bytes": strangers.replayed(target, alice),
        "no right": strangers.without_right(target, bob),
        "the right to read": strangers.without_right(target, reader, may_read=True),
    }


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_strangers_change_nothing(cluster: LocalCluster, keys: Keyring, times: int) -> None:
    (bookie,) = cluster.bookies
    watch = Watch(bookie.pid)
    with (
        keys.connect(cluster, "alice") as alice,
        keys.connect(cluster, "operator") as operator,
        lone_ledger(alice, grants={"reader": ["read"]}) as victim,
    ):
        victim.append_many(ENTRIES).result(30)
        target = Target(bookie, keys.public("bookie").public_key, victim.ledger_id)
        neighbor = Neighbor(alice)
        before = state_of(cluster, operator, [victim.ledger_id])

        for name, attack in attacks(target, keys).items():
            attack(times * SHARES[name])
            assert watch.look() < RSS_MAX, name

        neighbor.check()
        assert state_of(cluster, operator, [victim.ledger_id]) == before
        assert victim.append(b"not fenced") == len(ENTRIES)
    assert not cluster.deaths()
