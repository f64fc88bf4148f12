"""The parts of a connected client: metadata store, sockets, actors, and who may use them.

Any thread.
"""

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from zbk.client import arguments
from zbk.client.cluster.client_audit import ClientAudit
from zbk.client.cluster.directory import BookieDirectory
from zbk.client.cluster.metadata_actor import MetadataActors
from zbk.client.cluster.own_access import OwnAccess
from zbk.client.cluster.placer import BookiePlacer
from zbk.client.cluster.requests import Requests
from zbk.client.read.lac_watches import LacWatches
from zbk.client.write.ledger_creation import LedgerCreator
from zbk.config import ClientConfig, own_access_of
from zbk.errors import ClientClosedError, ForkedProcessError, UnauthorizedError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.logs import LogStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.metrics.registry import MetricRegistry
from zbk.protocol.entry.digest import is_same_secret, password_digest
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.placement import POLICIES
from zbk.security.credentials import credentials_of
from zbk.system.deadline import within
from zbk.system.handle import Handle
from zbk.system.process_id import process_id
from zbk.system.ticker import Ticker
from zbk.tracing.setup import TracerProvider, client_spans
from zbk.transport.dealer import BookiePool
from zbk.transport.events import DealerOptions

if TYPE_CHECKING:
    from zbk.client.calls.metrics import ClientMetrics
    from zbk.client.write.open_writers import OpenWriters

SOFTWARE: Final = "zbk-python"
URI_SIZE_MAX: Final = 4_096


def check_registry(metrics: object) -> None:
    """Check the argument ``metrics``.

    Raises:
        ArgumentTypeError: it is no registry of prometheus-client.
    """
    if metrics is not None:
        from zbk.metrics.collector import Registry

        arguments.instance("metrics", metrics, Registry)


class ClientConnection(Handle):
    """An open connection to a cluster, until it is closed."""

    def __init__(
        self,
        uri: str,
        config: ClientConfig,
        metrics: MetricRegistry | None = None,
        tracing: TracerProvider | bool = True,
    ) -> None:
        uri = arguments.text("uri", uri, URI_SIZE_MAX)
        self._pid = process_id()
        self._config = arguments.instance("config", config, ClientConfig)
        check_registry(metrics)
        self._credentials = credentials_of(config.key, config.security)
        self._spans = client_spans(arguments.tracing(tracing))
        self._is_closed = False
        self._lock = threading.Lock()
        with within(config.connect_timeout_ms / 1000):
            self._connect(uri)
        if metrics is not None:
            self._expose(metrics)

    def _connect(self, uri: str) -> None:
        with ExitStack() as undo:
            self._make_parts(uri, undo)
            undo.pop_all()
        self._made_writers: OpenWriters | None = None
        self._metrics: ClientMetrics | None = None

    def _make_parts(self, uri: str, undo: ExitStack) -> None:
        """Make the parts; ``undo`` ends those that have a thread or a connection."""
        config = self._config
        self._store: MetadataStore = open_store(
            uri,
            timeout_s=config.connect_timeout_ms / 1000,
            session_timeout_ms=config.session_timeout_ms,
            must_exist=True,
            access=own_access_of(config),
        )
        undo.callback(self._store.close)
        self._ledgers = LedgerStore(self._store)
        self._tasks = UnderreplicationStore(self._store)
        self._logs = LogStore(self._store)
        self._data_sets = DataSetStore(self._store)
        self._pool = BookiePool(
            DealerOptions(
                instance_id(self._store),
                SOFTWARE,
                config.connect_timeout_ms,
                config.connection_idle_ms,
                config.spin_us,
                self._credentials,
            )
        )
        undo.callback(self._pool.close)
        self._directory = BookieDirectory(BookieRegistry(self._store), self._pool.set_doors)
        undo.callback(self._directory.close)
        self._requests = Requests(self._pool, config.request_timeout_ms)
        self._lac_watches = LacWatches(self._requests, self._pool.call_soon)
        self._metadata_actors = MetadataActors()
        self._ticker = Ticker("zbk-client-ticker")
        undo.callback(self._ticker.stop)
        self._placer = BookiePlacer(
            self._directory, POLICIES[config.placement], config.avoid_failed_ms
        )
        self._own = OwnAccess(self._store, self._credentials)
        self._audit = ClientAudit(config, self._own)
        self._creator = LedgerCreator(
            self._ledgers, self._placer, self._own, config.connect_timeout_ms, self._audit.created
        )

    def _expose(self, registry: MetricRegistry) -> None:
        from zbk.client.calls.metrics import ClientMetrics

        try:
            self._metrics = ClientMetrics(
                registry, self._store, self._pool, lambda: self._made_writers
            )
        except BaseException:
            self.close()
            raise

    @property
    def _writers(self) -> "OpenWriters":
        """The open writers. The first use loads their code, which is half of a client's code."""
        from zbk.client.write.open_writers import OpenWriters, SharedParts

        with self._lock:
            if self._is_closed:
                raise ClientClosedError
            if self._made_writers is None:
                self._made_writers = OpenWriters(
                    SharedParts(
                        config=self._config,
                        pool=self._pool,
                        ledgers=self._ledgers,
                        tasks=self._tasks,
                        placer=self._placer,
                        metadata_actors=self._metadata_actors,
                        ticker=self._ticker,
                        check_usable=self.check_usable,
                        spans=self._spans,
                    )
                )
                self._directory.when_writable_change(self._made_writers.writable_changed)
            return self._made_writers

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<zbk.Client {self._store.address} {state}>"

    @property
    def config(self) -> ClientConfig:
        """The options that the client was connected with."""
        return self._config

    @property
    def metadata_uri(self) -> str:
        """The address of the cluster's metadata."""
        return self._store.address

    @property
    def data_set_store(self) -> DataSetStore:
        """The data sets of the cluster, for ``zbk.DataSets``."""
        self.check_usable()
        return self._data_sets

    def check_usable(self) -> None:
        """Raise if this client is closed, or belongs to another process.

        Raises:
            ForkedProcessError: this is a forked child of the process that connected.
            ClientClosedError: it was closed.
        """
        pid = process_id()
        if pid != self._pid:
            raise ForkedProcessError(self._pid, pid)
        if self._is_closed:
            raise ClientClosedError

    def close(self) -> None:
        """End everything. Open writers are abandoned, not closed. Closing twice is allowed."""
        if process_id() != self._pid:
            raise ForkedProcessError(self._pid, process_id())
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._metrics is not None:
            self._metrics.close()
        if self._made_writers is not None:
            self._made_writers.stop_all()
        self._ticker.stop()
        self._directory.close()
        self._pool.close()
        self._metadata_actors.stop()
        self._store.close()
        self._audit.close()

    def _timeout_s(self, timeout: float | None) -> float:
        """Return a time-out in seconds, the client's own if none is given."""
        if timeout is None:
            return self._config.default_timeout_ms / 1000
        return arguments.seconds(timeout)

    def _check_password(self, metadata: LedgerMetadata, password: bytes) -> None:
        digest = password_digest(password, metadata.ledger_id)
        if not is_same_secret(digest, metadata.password_digest):
            raise UnauthorizedError(metadata.ledger_id)
