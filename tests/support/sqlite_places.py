"""A file of SQLite metadata, and the stores that a test opens on it."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from zbk.metadata.stores.sqlite import SqliteStore
from zbk.system.clock import monotonic_ms

LEASE_MS = 3000


class Place:
    """A file, and the stores that a test opened on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uri = f"sqlite://{path}"
        self.stores: list[SqliteStore] = []

    def open(
        self, now_ms: Callable[[], int] = monotonic_ms, timeout_s: float = 5.0, poll_ms: int = 5
    ) -> SqliteStore:
        """Return one more store, which the test's fixture closes."""
        store = SqliteStore(
            self.uri,
            timeout_s=timeout_s,
            session_timeout_ms=LEASE_MS,
            poll_ms=poll_ms,
            now_ms=now_ms,
        )
        self.stores.append(store)
        return store

    def connect(self) -> sqlite3.Connection:
        """Return a connection of another program to the file."""
        return sqlite3.connect(self.path, isolation_level=None, timeout=5)
