"""Keys for clusters of tests: files, principals, and clients that use them."""

from pathlib import Path
from typing import Self

import zbk
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.metadata.records.namespaces import Change as NamespaceChange
from zbk.metadata.records.namespaces import NamespaceStore
from zbk.metadata.records.principals import Change, PrincipalStore
from zbk.metadata.stores.connect import open_store
from zbk.security.keys import PublicKey, read_public, write_pair
from zbk.security.principals import with_key, without_key
from zbk.transport.curve import new_pair


class Keyring:
    """Key files in a folder, by name."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    @classmethod
    def of(cls, folder: Path, *names: str) -> Self:
        """Make a folder with these keys."""
        made = cls(folder)
        for name in names:
            made.make(name)
        return made

    def make(self, name: str) -> str:
        """Make a key; return the path of its private file."""
        private, _public = write_pair(self._folder, new_pair(name))
        return str(private)

    def path(self, name: str) -> str:
        return str(self._folder / f"{name}.key")

    def public(self, name: str) -> PublicKey:
        return read_public(self._folder / f"{name}.pub")

    def admit(self, cluster: LocalCluster, principal: str, name: str, *roles: str) -> None:
        """Add a key to a principal of a cluster."""
        key = self.public(name).public_key
        _change(cluster, lambda now: with_key(now, principal, key, roles))

    def remove(self, cluster: LocalCluster, principal: str, name: str) -> None:
        """Remove a key of a principal of a cluster."""
        key = self.public(name).public_key
        _change(cluster, lambda now: without_key(now, principal, key))

    def wait_for(self, cluster: LocalCluster, *names: str) -> None:
        """Wait until all bookies accept these keys."""
        for name in names:
            with self.connect(cluster, name) as client:
                for bookie in cluster.bookies:
                    wait_until(lambda: _is_accepted(client, bookie.bookie_id))  # noqa: B023

    def connect(self, cluster: LocalCluster, name: str) -> zbk.Client:
        """Connect with a key."""
        return zbk.connect(cluster.metadata_uri, key=self.path(name))


def change_namespaces(cluster: LocalCluster, change: NamespaceChange) -> None:
    """Change the namespaces of a cluster."""
    store = open_store(cluster.metadata_uri)
    try:
        NamespaceStore(store).change(change)
    finally:
        store.close()


def _is_accepted(client: zbk.Client, bookie_id: str) -> bool:
    try:
        client.bookie_info(bookie_id)
    except zbk.BookieUnavailableError:
        return False
    return True


def _change(cluster: LocalCluster, change: Change) -> None:
    store = open_store(cluster.metadata_uri)
    try:
        PrincipalStore(store).change(change)
    finally:
        store.close()


def is_refused(client: zbk.Client, bookie_id: str) -> bool:
    """Return whether a bookie refuses the key of a client now."""
    try:
        client.bookie_info(bookie_id)
    except zbk.KeyRefusedError:
        return True
    except zbk.BookieUnavailableError:  # the connection that was cut off
        return False
    return False
