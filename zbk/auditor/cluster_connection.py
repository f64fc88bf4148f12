"""The connection of a repairing process to its cluster: metadata records, bookies, requests.

A process of autorecovery, a re-check and a command each open one and close it. Any thread may use
it.
"""

import threading
from contextlib import suppress
from typing import Final

from zbk.client.cluster.directory import BookieDirectory
from zbk.client.cluster.ledger_calls import LedgerCalls
from zbk.client.cluster.placer import BookiePlacer
from zbk.client.cluster.requests import Requests
from zbk.config import ClientConfig, own_access_of
from zbk.errors import ClientClosedError, ZbkError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.ledger.placement import RackAwarePlacement
from zbk.security.credentials import credentials_of
from zbk.system.handle import Handle
from zbk.transport.dealer import BookiePool
from zbk.transport.events import DealerOptions

SOFTWARE: Final = "zbk-autorecovery"


class ClusterConnection(Handle):
    """A session with the metadata store at ``uri``, and the bookies that are registered there."""

    def __init__(self, uri: str, config: ClientConfig | None = None) -> None:
        """Connect.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
            InvalidOptionError: the address is malformed, or there is no cluster at it.
            KeyFileError: the key file cannot be used.
        """
        self.config = config or ClientConfig()
        self._is_closed = threading.Event()
        self.store: MetadataStore = open_store(
            uri,
            timeout_s=self.config.connect_timeout_ms / 1000,
            session_timeout_ms=self.config.session_timeout_ms,
            must_exist=True,
            access=own_access_of(self.config),
        )
        try:
            self.ledgers = LedgerStore(self.store)
            self.tasks = UnderreplicationStore(self.store)
            self.registry = BookieRegistry(self.store)
            self.cluster_id = instance_id(self.store)
            timeout_ms = self.config.connect_timeout_ms
            options = DealerOptions(
                self.cluster_id,
                SOFTWARE,
                timeout_ms,
                credentials=credentials_of(self.config.key, self.config.security),
            )
            self._pool = BookiePool(options)
        except BaseException:
            self.store.close()
            raise
        self.directory = BookieDirectory(self.registry, self._pool.set_doors)
        self.requests = Requests(self._pool, self.config.request_timeout_ms)
        # ``config.placement`` is that of an application, and a ledger does not record its own; a
        # rack is only a preference, and without racks the choice is random
        policy = RackAwarePlacement()
        self.placer = BookiePlacer(self.directory, policy, self.config.avoid_failed_ms)

    def registered(self) -> frozenset[str]:
        """Return the ids of the registered bookies, read-only ones included, as last seen."""
        return frozenset(one.bookie_id for one in self.directory.registrations())

    def has_left_limbo(self, bookie_id: str, ledger_id: int) -> bool:
        """Return whether a bookie answers, and knows what it has of a ledger."""
        with suppress(ZbkError):
            return not LedgerCalls(self.requests, ledger_id).info(bookie_id).is_in_limbo
        return False

    def check_usable(self) -> None:
        """Check that the connection is open.

        Raises:
            ClientClosedError: it is closed.
        """
        if self._is_closed.is_set():
            raise ClientClosedError

    def close(self) -> None:
        """Close everything. A second call does nothing."""
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        self.directory.close()
        self._pool.close()
        self.store.close()
