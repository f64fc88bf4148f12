"""``security = allowed``: what a bookie enforces while keys are rolled out, and what only later.

Keys count: an unknown or removed one is refused. Rights do not: who lacks one could connect without
a key. Owners and grants are recorded, and count from the restart with ``required`` on.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.security.test_rotation import RollingCluster
from tests.support.cluster import Shell
from tests.support.secure_cluster import Keyring, is_refused
from tests.support.waiting import wait_until

ALLOWED = ("--security", "allowed")


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    return Keyring.of(tmp_path / "keys", "bookie", "alice", "bob", "mallory")


@pytest.fixture
def cluster(tmp_path: Path, keys: Keyring) -> Iterator[RollingCluster]:
    made = RollingCluster(tmp_path / "data")
    made.security_flags = ("--key", keys.path("bookie"), *ALLOWED)
    with made as running:
        keys.admit(running, "alice", "alice")
        keys.admit(running, "bob", "bob")
        keys.wait_for(running, "alice", "bob")
        yield running


def contents(client: zbk.Client, ledger_id: int) -> list[bytes]:
    with client.open_ledger(ledger_id) as reader:
        return [bytes(one.payload) for one in reader.read(0, reader.last_add_confirmed)]


def test_keys_are_enforced_and_rights_are_not_before_all_bookies_require_keys(
    cluster: RollingCluster, keys: Keyring
) -> None:
    bookie_id = cluster.bookies[0].bookie_id
    with (
        keys.connect(cluster, "alice") as alice,
        keys.connect(cluster, "bob") as bob,
        keys.connect(cluster, "mallory") as mallory,
        zbk.connect(cluster.metadata_uri) as plain,
    ):
        with alice.create_ledger() as hers:
            hers.append(b"of alice")
        with pytest.raises(zbk.KeyRefusedError):
            mallory.bookie_info(bookie_id)

        assert contents(bob, hers.ledger_id) == [b"of alice"]  # he has no right to
        assert contents(plain, hers.ledger_id) == [b"of alice"]
        with plain.create_ledger() as open_one:
            open_one.append(b"of nobody")
        assert contents(alice, open_one.ledger_id) == [b"of nobody"]
        with pytest.raises(zbk.AccessDeniedError):  # the client checks these itself
            bob.delete_ledger(hers.ledger_id)
        with pytest.raises(zbk.AccessDeniedError):
            bob.grant(hers.ledger_id, "bob", ["read"])

        keys.remove(cluster, "bob", "bob")
        wait_until(lambda: is_refused(bob, bookie_id), timeout_s=1.0)
        keys.admit(cluster, "bob", "bob")
    shell = Shell(cluster.folder, {"ZBK_METADATA": cluster.metadata_uri})
    found = shell.run("cluster", "check-security", exit_code=10).stdout
    assert b"allowed" in found

    cluster.security_flags = ("--key", keys.path("bookie"))
    for index in range(4):
        cluster.terminate(index)
        cluster.restart(index)
    with keys.connect(cluster, "alice") as alice, keys.connect(cluster, "bob") as bob:
        assert contents(alice, hers.ledger_id) == [b"of alice"]
        assert contents(bob, open_one.ledger_id) == [b"of nobody"]  # it has no owner
        with pytest.raises(zbk.AccessDeniedError):
            contents(bob, hers.ledger_id)
