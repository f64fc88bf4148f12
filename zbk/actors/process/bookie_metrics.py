"""The metrics and the health checks of one bookie, read from the numbers that its actors keep.

Nothing here counts. Each number has one thread that writes it; a reader may see it one step old.
``read`` and ``checks`` may be called by any thread, and never wait.
"""

from collections.abc import Iterable, Sequence
from math import nan
from typing import Any

from zbk.actors.process.bookie_info import BookieStatus
from zbk.metadata.records.registration import Registration
from zbk.metadata.stores.session_metrics import SessionMetrics
from zbk.metadata.stores.store import MetadataStore, SessionState
from zbk.metrics.buckets import merged
from zbk.metrics.checks import Check
from zbk.metrics.refusals import RESULTS, Refusals
from zbk.metrics.samples import Samples
from zbk.metrics.table import TYPES
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.index.write_back import WriteBackCache
from zbk.system.clock import monotonic_ms, monotonic_us
from zbk.transport.router import RouterFront


class BookieMetrics:
    """Reads a bookie that runs. ``close`` comes last."""

    def __init__(
        self,
        status: BookieStatus,
        front: RouterFront,
        storage: BookieStorage,
        store: MetadataStore,
        registration: Registration,
    ) -> None:
        self._status = status
        self._front = front
        self._storage = storage
        self._registration = registration
        self._session = SessionMetrics(store)
        for queue in status.queues:
            queue.times.keep()

    def close(self) -> None:
        """Watch the session no more."""
        self._session.close()

    def read(self, samples: Samples) -> None:
        """Put the values of all metrics of a bookie into samples."""
        actors = self._status.actors
        self._session.read(samples)
        samples.set("zbk_bookie_registered", self._registration.is_registered)
        self._read_requests(samples, actors)
        self._read_front(samples)
        self._read_journals(samples)
        self._read_storage(samples, actors)
        self._read_index(samples)
        self._read_checkpoints(samples, actors["checkpoint"])
        _read_gc(samples, actors["gc"])
        _read_scrub(samples, actors["scrub"])

    def checks(self) -> Sequence[Check]:
        """Return the checks of ``/readyz``."""
        session, is_readonly = self._session.state, self._front.admission.is_readonly
        reasons = ", ".join(one.value for one in self._status.losses.reasons)
        failed = self._status.failed_directories
        return [
            Check("registered", self._registration.is_registered, self._registration.state.value),
            Check("metadata", session is SessionState.CONNECTED, session.value),
            Check("writable", not is_readonly, is_required=False),
            Check("limbo", not reasons, reasons, is_required=False),
            Check("directories", not failed, ", ".join(failed), is_required=False),
        ]

    # ------------------------------------------------------------------ private

    def _read_requests(self, samples: Samples, actors: dict[str, Any]) -> None:
        adds, reads = actors["storage"].counts, actors["read"].counts
        for ledger_type, stored in adds.by_type.items():
            name = TYPES[ledger_type]
            samples.set("zbk_bookie_adds_total", stored.batch_count, name)
            samples.set("zbk_bookie_added_entries_total", stored.entry_count, name)
            samples.set("zbk_bookie_added_bytes_total", stored.size, name)
        samples.set("zbk_bookie_reads_total", reads.request_count)
        samples.set("zbk_bookie_read_entries_total", reads.entry_count)
        samples.set("zbk_bookie_read_bytes_total", reads.size)
        samples.put_buckets("zbk_bookie_queue_seconds", actors["storage"].queue_times)
        samples.put_buckets("zbk_bookie_read_seconds", actors["read"].times)
        writers = _journal_actors(actors)
        owners: list[Refusals] = [
            self._front.admission.refusals,
            *(one.refusals for one in (actors["storage"], actors["read"], *writers)),
        ]
        for result in RESULTS:
            count = sum(one.counts[result] for one in owners)
            samples.set("zbk_bookie_refusals_total", count, result)

    def _read_front(self, samples: Samples) -> None:
        counts = self._front.counts
        samples.set("zbk_bookie_connections", counts.connection_count)
        samples.set("zbk_bookie_peers", counts.peer_count)
        samples.set("zbk_bookie_connections_ended_total", counts.ended_count)
        samples.set("zbk_bookie_messages_total", counts.message_count)
        samples.set("zbk_bookie_dropped_answers_total", counts.dropped_answer_count)
        for result in ("written", "suppressed", "lost"):
            count = getattr(self._status.audit_counts, result)
            samples.set("zbk_audit_records_total", count, result)
        samples.set("zbk_bookie_insecure", self._registration.wanted.is_insecure is True)
        samples.set("zbk_bookie_keys_refused_total", self._front.key_counts.refused_count)
        samples.set("zbk_bookie_handshakes_failed_total", self._front.key_counts.failed_count)
        samples.set("zbk_bookie_in_flight_bytes", self._front.in_flight_size)

    def _read_journals(self, samples: Samples) -> None:
        journals, queues = self._storage.journals, self._status.queues
        for directory, journal, queue in zip(journals.directories, journals, queues, strict=True):
            times = queue.times
            samples.set("zbk_journal_written_bytes_total", journal.write_size, directory)
            samples.put_buckets("zbk_journal_queue_seconds", times.waits, directory)
            samples.put_buckets("zbk_journal_write_seconds", times.writes, directory)
            samples.put_buckets("zbk_journal_fsync_seconds", times.fsyncs, directory)
            samples.set("zbk_journal_unsynced_bytes", queue.volatile_size, directory)
            samples.set("zbk_journal_unsynced_age_seconds", queue.volatile_us / 1e6, directory)
        for ledger_type, name in TYPES.items():
            answers = merged([queue.times.answers[ledger_type] for queue in queues])
            samples.put_buckets("zbk_bookie_answer_seconds", answers, name)

    def _read_storage(self, samples: Samples, actors: dict[str, Any]) -> None:
        logs, losses = actors["gc"].counts.logs, self._status.losses
        unsynced = actors["storage"].unsynced(monotonic_us())
        samples.set("zbk_entry_log_unsynced_bytes", sum(one.unsynced_size for one in unsynced))
        age_ms = max((one.age_ms for one in unsynced), default=0)
        samples.set("zbk_entry_log_unsynced_age_seconds", age_ms / 1000)
        samples.set("zbk_bookie_ledgers", self._storage.ledger_count)
        samples.set("zbk_entry_logs", logs.log_count)
        samples.set("zbk_entry_log_bytes", logs.size)
        samples.set("zbk_entry_log_dead_bytes", logs.dead_size)
        samples.set("zbk_bookie_read_only", self._front.admission.is_readonly)
        samples.set("zbk_disk_reserve_missing", not self._storage.has_reserve)
        samples.set("zbk_bookie_failed_directories", len(self._status.failed_directories))
        limbo_count = losses.unchecked_count if losses.reasons else 0
        samples.set("zbk_limbo_ledgers", nan if limbo_count is None else limbo_count)
        for space in actors["disk"].spaces:
            samples.set("zbk_disk_free_bytes", space.free_size, space.path)
            samples.set("zbk_disk_size_bytes", space.total_size, space.path)

    def _read_index(self, samples: Samples) -> None:
        caches = [one.cache for one in self._storage.directories]
        pages = [one.pages for one in caches]
        _read_lookups(samples, "zbk_index_page_lookups_total", pages)
        _read_lookups(samples, "zbk_index_header_lookups_total", [one.headers for one in caches])
        files = self._storage.open_files
        samples.set("zbk_open_file_lookups_total", files.hit_count, "hit")
        samples.set("zbk_open_file_lookups_total", files.miss_count, "miss")
        samples.set("zbk_index_memory_bytes", sum(one.size for one in pages))
        samples.set("zbk_index_dirty_bytes", sum(one.dirty_size for one in pages))

    def _read_checkpoints(self, samples: Samples, checkpoints: Any) -> None:  # noqa: ANN401 - of pykka
        samples.set("zbk_checkpoints_total", checkpoints.checkpoint_count)
        samples.put_buckets("zbk_checkpoint_seconds", checkpoints.times)
        age_ms = monotonic_ms() - checkpoints.ended_ms
        samples.set("zbk_checkpoint_age_seconds", age_ms / 1000)


def _journal_actors(actors: dict[str, Any]) -> list[Any]:
    return [actor for name, actor in actors.items() if name.startswith("journal-")]


def _read_lookups(samples: Samples, name: str, caches: Iterable[WriteBackCache[Any, Any]]) -> None:
    samples.set(name, sum(one.hit_count for one in caches), "hit")
    samples.set(name, sum(one.miss_count for one in caches), "miss")


def _read_gc(samples: Samples, collector: Any) -> None:  # noqa: ANN401 - of pykka
    counts, compacted = collector.counts, collector.compaction.counts
    samples.set("zbk_gc_rounds_total", counts.ended_round)
    samples.set("zbk_gc_ledgers_total", counts.ledger_count)
    samples.set("zbk_gc_logs_total", counts.log_count)
    samples.set("zbk_gc_freed_bytes_total", counts.freed_size)
    samples.set("zbk_gc_gave_up", bool(counts.result.gave_up))
    samples.set("zbk_compaction_logs_total", compacted.log_count)
    samples.set("zbk_compaction_copied_bytes_total", compacted.copied_size)
    samples.set("zbk_compaction_freed_bytes_total", max(0, compacted.freed_size))


def _read_scrub(samples: Samples, scrubber: Any) -> None:  # noqa: ANN401 - of pykka
    counts, passes = scrubber.counts, (scrubber.findings, scrubber.ended_findings)
    samples.set("zbk_scrub_passes_total", counts.ended_pass)
    samples.set("zbk_scrub_running", counts.begun_pass > counts.ended_pass)
    samples.set("zbk_scrub_progress_ratio", counts.share)
    samples.set("zbk_scrub_read_bytes", counts.read_size)
    # a pass may take days: what the one before has found counts until it has ended
    samples.set("zbk_scrub_damaged_files", max(one.file_count for one in passes))
    samples.set("zbk_scrub_damaged_ledgers", max(one.ledger_count for one in passes))
    samples.set("zbk_scrub_damaged_entries", max(one.entry_count for one in passes))
    samples.set("zbk_scrub_unreported_ledgers", scrubber.queue.pending_count)
