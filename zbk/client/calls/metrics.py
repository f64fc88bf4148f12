"""The metrics of one client, for a registry of prometheus-client that the application gives."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from zbk.errors import InvalidOptionError
from zbk.metadata.stores.session_metrics import SessionMetrics
from zbk.metadata.stores.store import MetadataStore
from zbk.metrics.build import build_fields
from zbk.metrics.collector import TableCollector
from zbk.metrics.registry import MetricRegistry
from zbk.metrics.samples import Samples
from zbk.metrics.table import TYPES, metrics_of
from zbk.system.clock import monotonic_ms
from zbk.transport.dealer import BookiePool

if TYPE_CHECKING:
    from zbk.client.write.open_writers import OpenWriters


class ClientMetrics:
    """Exposes a client until ``close``. Any thread may collect; it never waits."""

    def __init__(
        self,
        registry: MetricRegistry,
        store: MetadataStore,
        pool: BookiePool,
        writers: "Callable[[], OpenWriters | None]",
    ) -> None:
        """Register.

        Raises:
            InvalidOptionError: another client is in the registry.
        """
        self._pool = pool
        pool.counts.keep_times()
        self._writers = writers
        self._session = SessionMetrics(store)
        self._registry = registry
        self._collector = TableCollector(metrics_of("client"), {"the client": self.read})
        try:
            registry.register(self._collector)
        except ValueError as error:
            self._session.close()
            raise InvalidOptionError(
                "metrics", "", "the registry has a client already: give each one its own"
            ) from error

    def close(self) -> None:
        """Leave the registry."""
        self._session.close()
        self._registry.unregister(self._collector)

    def read(self, samples: Samples) -> None:
        """Put the values of all metrics of a client into samples."""
        samples.put_info("zbk_build_info", build_fields("client"))
        self._session.read(samples)
        counts = self._pool.counts
        for operation, buckets in counts.times.items():
            samples.put_buckets("zbk_client_request_seconds", buckets, operation)
        for operation, count in counts.failure_counts.items():
            samples.set("zbk_client_failed_requests_total", count, operation)
        samples.set("zbk_client_connections", counts.connection_count)
        writers = self._writers()
        if writers is not None:
            _read_writers(samples, writers)


def _read_writers(samples: Samples, writers: "OpenWriters") -> None:
    samples.set("zbk_client_open_ledgers", len(writers))
    samples.set("zbk_client_pending_bytes", writers.pending_size)
    unsynced_size, unsynced_ms = writers.unsynced(monotonic_ms())
    samples.set("zbk_client_unsynced_bytes", unsynced_size)
    samples.set("zbk_client_unsynced_age_seconds", unsynced_ms / 1000)
    totals = writers.totals
    for ledger_type in totals[0].by_type:
        name = TYPES[ledger_type]
        kind = [one.by_type[ledger_type] for one in totals]
        entry_count = sum(one.entry_count for one in kind)
        samples.set("zbk_client_appended_entries_total", entry_count, name)
        samples.set("zbk_client_appended_bytes_total", sum(one.size for one in kind), name)
    failed_count = sum(one.failed_append_count for one in totals)
    samples.set("zbk_client_failed_appends_total", failed_count)
    changed_count = sum(one.ensemble_change_count for one in totals)
    samples.set("zbk_client_ensemble_changes_total", changed_count)
