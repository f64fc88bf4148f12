"""The cluster that the admin API of a process operates: connections, opened when first used.

Threads: any; the first callers of ``client`` and ``store`` wait for the connection.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from zbk.errors import UnavailableError

if TYPE_CHECKING:
    from zbk.client.api import Client
    from zbk.metadata.stores.store import MetadataStore


def _connect(metadata: str) -> "Client":
    import zbk  # noqa: PLC0415 - a process whose API is not used does not load a client

    return zbk.connect(metadata)


def _open(metadata: str) -> "MetadataStore":
    from zbk.metadata.stores.connect import open_store  # noqa: PLC0415 - as above

    return open_store(metadata, must_exist=True)


class Cluster:
    """A cluster by the address of its metadata store. ``close`` it at the end."""

    def __init__(
        self,
        metadata: str,
        *,
        connect: "Callable[[str], Client]" = _connect,
        open_store: "Callable[[str], MetadataStore]" = _open,
    ) -> None:
        self.metadata = metadata
        self.bookie_id = ""
        """The bookie of this process, once it has started; "" in a process without one."""
        self._connect = connect
        self._open_store = open_store
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._store: MetadataStore | None = None
        self._is_closed = False

    @property
    def client(self) -> "Client":
        """Return the client.

        Raises:
            UnavailableError: the process ends.
            MetadataUnavailableError: the metadata store does not answer.
        """
        with self._lock:
            self._check_open()
            if self._client is None:
                self._client = self._connect(self.metadata)
            return self._client

    @property
    def store(self) -> "MetadataStore":
        """Return the metadata store. Raises as ``client``."""
        with self._lock:
            self._check_open()
            if self._store is None:
                self._store = self._open_store(self.metadata)
            return self._store

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            for one in (self._client, self._store):
                if one is not None:
                    one.close()
            self._client = self._store = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise UnavailableError("the process ends")
