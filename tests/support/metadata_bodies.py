"""The three bodies of the metadata port, as the conformance suite drives them."""

import sqlite3
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.zookeeper import expire_session
from zbk.metadata.stores import sqlite_tree
from zbk.metadata.stores.sqlite import SqliteStore
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.stores.zookeeper import ZooKeeperStore


class Body(Protocol):
    """One place that several stores share."""

    @property
    def uri(self) -> str:
        """The address that every store is opened with."""
        ...

    def open(self) -> MetadataStore:
        """Return one more client's store. ``close`` of the body closes it."""
        ...

    def expire(self, store: MetadataStore) -> None:
        """End the store's session, as if the store had been away for too long."""
        ...

    def close(self) -> None:
        """Close every store."""
        ...


class MemoryBody:
    """Stores that share a tree in memory."""

    def __init__(self) -> None:
        self._tree = MemoryTree(uuid4().hex)
        self._stores: list[MemoryStore] = []

    @property
    def uri(self) -> str:
        return f"memory://{self._tree.name}"

    def open(self) -> MemoryStore:
        self._stores.append(self._tree.open_session())
        return self._stores[-1]

    def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, MemoryStore)
        store.expire_session()

    def close(self) -> None:
        for store in self._stores:
            store.close()


class SqliteBody:
    """Stores that share a file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "metadata.db"
        self._stores: list[SqliteStore] = []

    @property
    def uri(self) -> str:
        return f"sqlite://{self._path}"

    def open(self) -> SqliteStore:
        self._stores.append(SqliteStore(self.uri, poll_ms=10))
        return self._stores[-1]

    def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, SqliteStore)
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=10)
        connection.execute("BEGIN IMMEDIATE")
        sqlite_tree.end_session(connection, store._session_id)
        connection.execute("COMMIT")
        connection.close()

    def close(self) -> None:
        for store in self._stores:
            store.close()


class ZooKeeperBody:
    """Stores below one node of a real ZooKeeper."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._stores: list[ZooKeeperStore] = []

    @property
    def uri(self) -> str:
        return self._uri

    def open(self) -> ZooKeeperStore:
        self._stores.append(ZooKeeperStore(self.uri))
        return self._stores[-1]

    def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        expire_session(store)

    def close(self) -> None:
        for store in self._stores:
            store.close()
