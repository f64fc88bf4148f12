"""The cluster that the admin API of a process operates: connections, opened when first used.

Threads: any; the first callers of ``client`` and ``connection`` wait for the connection.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from zbk.admin.jobs import Jobs
from zbk.audit.record import AuditRecord
from zbk.audit.trail import AuditCounts, AuditTrail, open_trail
from zbk.config import NO_SECURITY, AutorecoveryConfig, BookieConfig, SecurityConfig
from zbk.config.running import RunningOptions
from zbk.errors import UnavailableError

if TYPE_CHECKING:
    from zbk.actors.process.bookie import Bookie
    from zbk.auditor.cluster_connection import ClusterConnection
    from zbk.client.api import Client
    from zbk.metadata.stores.store import MetadataStore


def _connect(metadata: str, security: SecurityConfig) -> "Client":
    import zbk  # noqa: PLC0415 - a process whose API is not used does not load a client

    return zbk.connect(metadata, key=security.key, security=security.security)


def _open(metadata: str, security: SecurityConfig) -> "ClusterConnection":
    from zbk.auditor.cluster_connection import ClusterConnection  # noqa: PLC0415 - as above

    return ClusterConnection(metadata, security.for_clients)


class Cluster:
    """A cluster by the address of its metadata store. ``close`` it at the end."""

    def __init__(
        self,
        metadata: str,
        *,
        running: RunningOptions[BookieConfig] | None = None,
        option_sources: Mapping[str, str] | None = None,
        connect: "Callable[[str], Client] | None" = None,
        open_connection: "Callable[[str], ClusterConnection] | None" = None,
        security: SecurityConfig = NO_SECURITY,
    ) -> None:
        self.metadata = metadata
        self.running = running
        """The options of the bookie of this process; ``None`` in a process without one."""
        self.autorecovery: RunningOptions[AutorecoveryConfig] | None = None
        """The options of autorecovery beside that bookie; ``None`` in a process without it."""
        self.read_options: Callable[[], BookieConfig] | None = None
        """Reads them again, from where the process got them."""
        self.option_sources = option_sources or {}
        """Where the values come from with which the process started, by name."""
        self.bookie_id = ""
        """The bookie of this process, once it has started; "" in a process without one."""
        self.own_bookie: Bookie | None = None
        """That bookie itself."""
        self.security: Final = security
        """The key of this process, which its connections have."""
        self.audit_counts: AuditCounts | None = None
        """Those of the bookie of this process, which its metrics show."""
        self.jobs = Jobs()
        self._connect = connect or partial(_connect, security=security)
        self._open_connection = open_connection or partial(_open, security=security)
        self._trail: AuditTrail | None = None
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._connection: ClusterConnection | None = None
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
    def connection(self) -> "ClusterConnection":
        """Return the connection for what no client does. Raises as ``client``."""
        with self._lock:
            self._check_open()
            if self._connection is None:
                self._connection = self._open_connection(self.metadata)
            return self._connection

    @property
    def bookie_config(self) -> BookieConfig | None:
        """The options in use by the bookie of this process."""
        return None if self.running is None else self.running.config

    def audit(self, record: AuditRecord) -> None:
        """Write a record into the audit log, if there is one. After ``close`` it does nothing."""
        if not self.security.audit_log:
            return
        with self._lock:
            if self._trail is None and not self._is_closed:
                self._trail = open_trail(self.security, "admin API", self.audit_counts)
            trail = self._trail
        if trail is not None:
            trail.note(record)

    @property
    def store(self) -> "MetadataStore":
        """Return the metadata store. Raises as ``client``."""
        return self.connection.store

    def close(self) -> None:
        """Stop the jobs and close the connections. A second call does nothing."""
        self.jobs.close()
        with self._lock:
            self._is_closed = True
            for one in (self._client, self._connection):
                if one is not None:
                    one.close()
            self._client = self._connection = None
            trail, self._trail = self._trail, None
        if trail is not None:
            trail.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise UnavailableError("the process ends")
