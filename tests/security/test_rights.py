"""Rights in ledgers, enforced by real bookies that require keys."""

from collections.abc import Iterator

import pytest

import zbk
from tests.support.cluster import QUICK
from tests.support.secure_cluster import Keyring
from zbk.cluster.local import LocalCluster


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    return Keyring.of(tmp_path_factory.mktemp("keys"), "bookie", "alice", "bob")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, keys: Keyring) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    flags = ("--key", keys.path("bookie"))
    with LocalCluster(folder, bookie_options=QUICK, bookie_flags=flags) as running:
        for name in ("alice", "bob"):
            keys.admit(running, name, name)
        keys.wait_for(running, "alice", "bob")
        yield running


def test_the_owner_appends_and_reads_and_another_principal_does_neither(
    cluster: LocalCluster, keys: Keyring
) -> None:
    with keys.connect(cluster, "alice") as alice, keys.connect(cluster, "bob") as bob:
        with alice.create_ledger() as ledger:
            ledger.append(b"hers")
        reserved = alice.reserve_ledger()

        assert [one.payload for one in alice.open_ledger(ledger.ledger_id).read(0, 0)] == [b"hers"]
        with pytest.raises(zbk.AccessDeniedError, match="bob has no right to read in ledger"):
            list(bob.open_ledger(ledger.ledger_id).read(0, 0))
        with pytest.raises(zbk.AccessDeniedError, match="bob has no right to append in ledger"):
            bob.open_for_append(reserved).append(b"his")
