"""Keys that are rolled out and replaced while clients write: no append fails."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK
from tests.support.secure_cluster import Keyring
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

MORE_COUNT = 20
"""Appends between two steps: the load runs through each."""


class RollingCluster(LocalCluster):
    """Four bookies, one more than a ledger needs; a restart applies the present flags."""

    security_flags: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, bookie_count=4, bookie_options=QUICK)

    def _bookie_command(self, index: int, port: int) -> list[str]:
        return [*super()._bookie_command(index, port), *self.security_flags]


class Load:
    """Appends one entry after the other, until it is stopped or an append fails."""

    def __init__(self, client: zbk.Client) -> None:
        self.ledger = client.create_ledger()
        self.error: zbk.ZbkError | None = None
        self.count = 0
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self.ledger.append(b"%d" % self.count)
            except zbk.ZbkError as error:
                self.error = error
                return
            self.count += 1

    def goes_on(self) -> None:
        """Wait for more appends; fail if one failed."""
        wanted = self.count + MORE_COUNT
        wait_until(lambda: self.count >= wanted or self.error is not None, timeout_s=30)
        assert self.error is None

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()


@contextmanager
def load_of(client: zbk.Client) -> Iterator[Load]:
    load = Load(client)
    try:
        yield load
    finally:
        load.stop()


def assert_complete(client: zbk.Client, load: Load) -> None:
    load.ledger.close()
    read = list(client.open_ledger(load.ledger.ledger_id).read(0, load.count - 1))
    assert [entry.payload for entry in read] == [b"%d" % number for number in range(load.count)]


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    return Keyring.of(tmp_path / "keys", "bookie", "alice")


def restart_all(cluster: RollingCluster, load: Load) -> None:
    for index in range(4):
        cluster.terminate(index)
        cluster.restart(index)
        load.goes_on()


def test_keys_are_rolled_out_to_a_cluster_that_works(tmp_path: Path, keys: Keyring) -> None:
    with RollingCluster(tmp_path / "data") as cluster:
        keys.admit(cluster, "alice", "alice")
        key = keys.path("alice")
        with (
            zbk.connect(cluster.metadata_uri) as plain,
            zbk.connect(cluster.metadata_uri, key=key, security="allowed") as both,
            load_of(plain) as old,
            load_of(both) as new,
        ):
            new.goes_on()  # without encryption: no bookie has a key yet
            cluster.security_flags = ("--key", keys.path("bookie"), "--security", "allowed")
            restart_all(cluster, new)
            old.goes_on()
            assert {one.security for one in both.list_bookies()} == {"allowed"}
            old.stop()
            assert_complete(plain, old)
            cluster.security_flags = ("--key", keys.path("bookie"))
            restart_all(cluster, new)
            new.stop()
            assert_complete(both, new)
            with pytest.raises(zbk.SecurityMismatchError):
                plain.bookie_info(cluster.bookies[0].bookie_id)
        with keys.connect(cluster, "alice") as client:
            assert {one.security for one in client.list_bookies()} == {"required"}


def test_the_keys_of_bookies_are_replaced_under_load(tmp_path: Path, keys: Keyring) -> None:
    with RollingCluster(tmp_path / "data") as cluster:
        keys.admit(cluster, "alice", "alice")
        cluster.security_flags = ("--key", keys.path("bookie"))
        for index in range(4):
            cluster.terminate(index)
            cluster.restart(index)
        with keys.connect(cluster, "alice") as client, load_of(client) as load:
            load.goes_on()
            cluster.security_flags = ("--key", keys.make("bookie-2"))
            restart_all(cluster, load)
            load.stop()
            assert_complete(client, load)
            assert {one.public_key for one in client.list_bookies()} == {
                keys.public("bookie-2").public_key
            }


def test_a_principal_replaces_its_key_under_load(tmp_path: Path, keys: Keyring) -> None:
    flags = ("--key", keys.path("bookie"))
    keys.make("alice-2")
    with LocalCluster(tmp_path / "data", bookie_options=QUICK, bookie_flags=flags) as cluster:
        keys.admit(cluster, "alice", "alice")
        with keys.connect(cluster, "alice") as old, load_of(old) as before:
            before.goes_on()
            keys.admit(cluster, "alice", "alice-2")
            with keys.connect(cluster, "alice-2") as new, load_of(new) as after:
                after.goes_on()
                before.goes_on()
                before.stop()
                assert_complete(new, before)
                keys.remove(cluster, "alice", "alice")
                after.goes_on()
                after.stop()
                assert_complete(new, after)
                bookie_id = cluster.bookies[0].bookie_id
                wait_until(lambda: is_refused(old, bookie_id))


def is_refused(client: zbk.Client, bookie_id: str) -> bool:
    try:
        client.bookie_info(bookie_id)
    except zbk.KeyRefusedError:
        return True
    except zbk.BookieUnavailableError:
        return False
    return False
