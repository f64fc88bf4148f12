"""The metrics and the health checks of one bookie, read from the numbers that its actors keep.

Nothing here counts. Each number has one thread that writes it; a reader may see it one step old.
``read`` and ``checks`` may be called by any thread, and never wait.
"""

from collections.abc import Sequence
from typing import Any

from zbk.actors.process.bookie_info import BookieStatus
from zbk.actors.serve.journal import SyncQueue
from zbk.metadata.records.registration import Registration
from zbk.metadata.stores.store import MetadataStore
from zbk.metrics.checks import Check
from zbk.metrics.samples import Samples
from zbk.storage.bookie_storage import BookieStorage


class BookieMetrics:
    """Reads a bookie that runs."""

    def __init__(
        self,
        status: BookieStatus,
        storage: BookieStorage,
        store: MetadataStore,
        registration: Registration,
    ) -> None:
        self._status = status
        self._storage = storage
        self._store = store
        self._registration = registration

    def read(self, samples: Samples) -> None:
        """Put the values of all metrics of a bookie into samples."""
        actors, queues = self._status.actors, self._status.queues
        self._read_adds(samples, actors)
        self._read_journals(samples, queues)

    def checks(self) -> Sequence[Check]:
        """Return the checks of ``/readyz``."""
        session = self._store.session_state().value
        info = self._status.info()
        return [
            Check("registered", self._registration.is_registered, self._registration.state.value),
            Check("metadata", session == "CONNECTED", session),
            Check("writable", not info.is_readonly, is_required=False),
            Check("limbo", not info.limbo, info.limbo, is_required=False),
            Check("directories", not info.out_of_service, info.out_of_service, is_required=False),
        ]

    # ------------------------------------------------------------------ private

    def _read_adds(self, samples: Samples, actors: dict[str, Any]) -> None:
        adds = actors["storage"].counts
        for ledger_type, entry_count in (
            ("pd_journal", adds.entry_count - adds.vd_entry_count),
            ("vd_journal", adds.vd_entry_count),
        ):
            samples.set("zbk_bookie_added_entries_total", entry_count, ledger_type)

    def _read_journals(self, samples: Samples, queues: Sequence[SyncQueue]) -> None:
        for directory, queue in zip(self._storage.journals.directories, queues, strict=True):
            samples.put_buckets("zbk_journal_fsync_seconds", queue.fsyncs, directory)
