"""Every metric that zbk exposes. Names, units and labels follow Prometheus: base units, few labels.

No label is a ledger, a client or an address: the number of time series of a process is fixed by its
configuration. All series with known labels exist from the start, at 0. A gauge is computed when it
is scraped, so it falls when its condition clears.
"""

from typing import Final

from zbk.metrics.metric import Labels, Metric, Process
from zbk.metrics.refusals import RESULTS
from zbk.protocol.entry.words import LedgerType

ALL: Final[tuple[Process, ...]] = ("bookie", "autorecovery", "client", "console")
TYPES: Final = {ledger_type: ledger_type.value.lower() for ledger_type in LedgerType}
"""The label of each ledger type."""

OPERATIONS: Final = ("add", "read", "lac", "sync", "other")
LOOKUPS: Final = ("hit", "miss")

_REPAIRERS: Final[tuple[Process, ...]] = ("autorecovery",)
_TYPE: Final[Labels] = {"type": tuple(TYPES.values())}
_DIRECTORY: Final[Labels] = {"directory": ()}
_OPERATION: Final[Labels] = {"operation": OPERATIONS}
_CLIENTS: Final[tuple[Process, ...]] = ("client",)
_CONSOLES: Final[tuple[Process, ...]] = ("console",)
_LOOKUP: Final[Labels] = {"result": LOOKUPS}

METRICS: Final = (
    Metric("zbk_build_info", "info", "Versions of zbk and Python.", ALL),
    Metric(
        "zbk_metadata_connected",
        "gauge",
        "1 while the session with the metadata store is connected.",
        ALL,
    ),
    Metric(
        "zbk_metadata_interruptions_total",
        "counter",
        "Times that the session with the metadata store was in doubt or lost.",
        ALL,
    ),
    # ---------------------------------------------------------------- bookie: requests
    Metric(
        "zbk_bookie_registered",
        "gauge",
        "1 while the bookie is registered, so that clients find it.",
    ),
    Metric("zbk_bookie_adds_total", "counter", "Add requests that were stored.", labels=_TYPE),
    Metric(
        "zbk_bookie_added_entries_total",
        "counter",
        "Entries that adds stored; those of repairs and recoveries included.",
        labels=_TYPE,
    ),
    Metric("zbk_bookie_added_bytes_total", "counter", "Bytes of these entries.", labels=_TYPE),
    Metric("zbk_bookie_reads_total", "counter", "Read requests that were answered with entries."),
    Metric("zbk_bookie_read_entries_total", "counter", "Entries in the answers to reads."),
    Metric("zbk_bookie_read_bytes_total", "counter", "Bytes of these entries."),
    Metric(
        "zbk_bookie_refusals_total",
        "counter",
        "Requests that were refused, by reason.",
        labels={"result": RESULTS},
    ),
    Metric(
        "zbk_bookie_queue_seconds",
        "histogram",
        "Time of received requests until the storage actor serves them; one value for each list.",
    ),
    Metric(
        "zbk_bookie_answer_seconds",
        "histogram",
        "Time from the receipt of adds to their answers; one value for each journal group and "
        "type. Adds of pd_journal are answered after the fsync, those of the other types after "
        "the write; adds of repairs and recoveries after the fsync, whatever the type.",
        labels=_TYPE,
    ),
    Metric(
        "zbk_bookie_read_seconds",
        "histogram",
        "Time that a read request takes in the read actor: entry logs, checks, answer.",
    ),
    # ---------------------------------------------------------------- bookie: connections
    Metric("zbk_bookie_connections", "gauge", "TCP connections, with or without a HELLO."),
    Metric("zbk_bookie_peers", "gauge", "Connections that have said HELLO: clients."),
    Metric(
        "zbk_bookie_connections_ended_total",
        "counter",
        "Connections that the bookie ended because they sent no HELLO in time.",
    ),
    Metric(
        "zbk_bookie_insecure",
        "gauge",
        "1 if the bookie has no key and listens to other machines: anyone there can use it.",
    ),
    Metric(
        "zbk_bookie_keys_refused_total",
        "counter",
        "Encrypted connections refused because their key belongs to no principal.",
    ),
    Metric(
        "zbk_bookie_handshakes_failed_total",
        "counter",
        "Connections to a bookie with a key that had none, or expected another key of it.",
    ),
    Metric(
        "zbk_audit_records_total",
        "counter",
        "Records of the audit log: written, suppressed as too many, or lost.",
        labels={"result": ("written", "suppressed", "lost")},
    ),
    Metric("zbk_bookie_messages_total", "counter", "Messages received."),
    Metric(
        "zbk_bookie_dropped_answers_total", "counter", "Answers whose client had gone meanwhile."
    ),
    Metric(
        "zbk_bookie_in_flight_bytes",
        "gauge",
        "Credit in use: bytes of requests that are not answered yet, of all clients.",
    ),
    # ---------------------------------------------------------------- bookie: journal
    Metric(
        "zbk_journal_written_bytes_total",
        "counter",
        "Bytes written to a journal.",
        labels=_DIRECTORY,
    ),
    Metric(
        "zbk_journal_queue_seconds",
        "histogram",
        "Time of journal groups until their write begins; one value for each write.",
        labels=_DIRECTORY,
    ),
    Metric(
        "zbk_journal_write_seconds",
        "histogram",
        "Duration of each write to a journal, into the page cache.",
        labels=_DIRECTORY,
    ),
    Metric(
        "zbk_journal_fsync_seconds",
        "histogram",
        "Duration of each fsync of a journal.",
        labels=_DIRECTORY,
    ),
    Metric(
        "zbk_journal_unsynced_bytes",
        "gauge",
        "Bytes that are written and not on stable storage. Of VD ledgers they are acknowledged: "
        "no VD ledger has more un-synced bytes here.",
        labels=_DIRECTORY,
    ),
    Metric(
        "zbk_journal_unsynced_age_seconds",
        "gauge",
        "Age of the oldest of these bytes; 0 if there are none.",
        labels=_DIRECTORY,
    ),
    # ---------------------------------------------------------------- bookie: storage
    Metric(
        "zbk_entry_log_unsynced_bytes",
        "gauge",
        "Bytes of bypass ledgers that are acknowledged, in entry logs only, and not on stable "
        "storage.",
    ),
    Metric(
        "zbk_entry_log_unsynced_age_seconds",
        "gauge",
        "Age of the oldest of these bytes; 0 if there are none.",
    ),
    Metric("zbk_bookie_ledgers", "gauge", "Ledgers that the bookie holds entries of."),
    Metric(
        "zbk_entry_logs",
        "gauge",
        "Sealed entry logs, as the last garbage collection has found them.",
    ),
    Metric(
        "zbk_entry_log_bytes",
        "gauge",
        "Bytes of these entry logs.",
    ),
    Metric(
        "zbk_entry_log_dead_bytes",
        "gauge",
        "Of these, bytes of deleted ledgers, which compaction may free.",
    ),
    Metric(
        "zbk_index_page_lookups_total",
        "counter",
        "Look-ups of index pages by reads, in memory (hit) or from a file (miss).",
        labels=_LOOKUP,
    ),
    Metric(
        "zbk_index_header_lookups_total",
        "counter",
        "Look-ups of the index headers of ledgers, likewise.",
        labels=_LOOKUP,
    ),
    Metric(
        "zbk_open_file_lookups_total",
        "counter",
        "Uses of entry logs and index files for reading: open (hit), or opened for it (miss).",
        labels=_LOOKUP,
    ),
    Metric("zbk_index_memory_bytes", "gauge", "Memory of index pages."),
    Metric("zbk_index_dirty_bytes", "gauge", "Of these, bytes that the next checkpoint writes."),
    Metric("zbk_disk_free_bytes", "gauge", "Free space of a directory's disk.", labels=_DIRECTORY),
    Metric("zbk_disk_size_bytes", "gauge", "Size of a directory's disk.", labels=_DIRECTORY),
    Metric("zbk_bookie_read_only", "gauge", "1 while the bookie refuses ordinary adds."),
    Metric(
        "zbk_disk_reserve_missing",
        "gauge",
        "1 while the space reserved for a full disk is in use in some directory.",
    ),
    Metric(
        "zbk_bookie_failed_directories",
        "gauge",
        "Directories that are out of service after a failure.",
    ),
    # ---------------------------------------------------------------- bookie: upkeep
    Metric("zbk_checkpoints_total", "counter", "Checkpoints that ended."),
    Metric(
        "zbk_checkpoint_seconds", "histogram", "Duration of each checkpoint, waits for space too."
    ),
    Metric(
        "zbk_checkpoint_age_seconds",
        "gauge",
        "Time since the last checkpoint ended, or since one would have had nothing to write.",
    ),
    Metric("zbk_gc_rounds_total", "counter", "Rounds of garbage collection that ended."),
    Metric("zbk_gc_ledgers_total", "counter", "Deleted ledgers that were dropped."),
    Metric("zbk_gc_logs_total", "counter", "Entry logs removed because nothing in them was live."),
    Metric("zbk_gc_freed_bytes_total", "counter", "Bytes of these entry logs."),
    Metric(
        "zbk_gc_gave_up",
        "gauge",
        "1 if the last round of garbage collection did less than it should, 0 if all.",
    ),
    Metric("zbk_compaction_logs_total", "counter", "Entry logs that compaction removed."),
    Metric("zbk_compaction_copied_bytes_total", "counter", "Bytes of live entries that it copied."),
    Metric("zbk_compaction_freed_bytes_total", "counter", "Bytes that it freed."),
    Metric("zbk_scrub_passes_total", "counter", "Scrubs of all files that ended."),
    Metric("zbk_scrub_running", "gauge", "1 while a scrub is under way."),
    Metric("zbk_scrub_progress_ratio", "gauge", "Share of the scrub under way that is done."),
    Metric("zbk_scrub_read_bytes", "gauge", "Bytes read by the scrub under way, or the last one."),
    Metric(
        "zbk_scrub_damaged_files",
        "gauge",
        "Damaged files that the last scrub found, or the one under way if it has found more.",
    ),
    Metric("zbk_scrub_damaged_ledgers", "gauge", "Ledgers with damaged entries that it found."),
    Metric("zbk_scrub_damaged_entries", "gauge", "Damaged entries that it found."),
    Metric(
        "zbk_scrub_unreported_ledgers",
        "gauge",
        "Ledgers with damage that wait to be reported for repair.",
    ),
    Metric(
        "zbk_limbo_ledgers",
        "gauge",
        "Ledgers of which the bookie may have lost entries and that it has not re-checked.",
    ),
    # ---------------------------------------------------------------- autorecovery
    Metric(
        "zbk_autorecovery_enabled",
        "gauge",
        "0 while autorecovery is disabled in the cluster.",
        _REPAIRERS,
    ),
    Metric(
        "zbk_underreplicated_ledgers",
        "gauge",
        "Ledgers of the cluster that wait for repair; NaN while the metadata store is silent.",
        _REPAIRERS,
    ),
    Metric(
        "zbk_unrepairable_ledgers",
        "gauge",
        "Ledgers of the cluster that were put aside because entries are lost.",
        _REPAIRERS,
    ),
    Metric(
        "zbk_repair_completion_seconds",
        "gauge",
        "Estimated time until no ledger waits for repair, from the last ten minutes; +Inf while "
        "their number does not fall.",
        _REPAIRERS,
    ),
    Metric("zbk_repairs_running", "gauge", "Repairs under way in this process.", _REPAIRERS),
    Metric(
        "zbk_repairs_total",
        "counter",
        "Attempts of this process to repair a ledger, by how they ended.",
        _REPAIRERS,
        labels={"result": ("finished", "postponed", "unrepairable", "left", "dropped")},
    ),
    Metric(
        "zbk_repair_copied_entries_total",
        "counter",
        "Entries that this process copied to other bookies.",
        _REPAIRERS,
    ),
    Metric("zbk_repair_copied_bytes_total", "counter", "Bytes of these entries.", _REPAIRERS),
    Metric(
        "zbk_auditor_leader",
        "gauge",
        "1 in the process that audits: one of the cluster.",
        _REPAIRERS,
    ),
    Metric(
        "zbk_auditor_lost_bookies", "gauge", "Bookies that the auditor counts as lost.", _REPAIRERS
    ),
    Metric(
        "zbk_auditor_brake",
        "gauge",
        "1 while nothing is reported because too many bookies are lost at once.",
        _REPAIRERS,
    ),
    # ---------------------------------------------------------------- client
    Metric(
        "zbk_client_request_seconds",
        "histogram",
        "Time from a request's hand-over to the connection until its answer, in whole "
        "milliseconds.",
        _CLIENTS,
        labels=_OPERATION,
    ),
    Metric(
        "zbk_client_failed_requests_total",
        "counter",
        "Requests that were refused, timed out, or lost their connection.",
        _CLIENTS,
        labels=_OPERATION,
    ),
    Metric("zbk_client_connections", "gauge", "Bookies that the client is connected to.", _CLIENTS),
    Metric("zbk_client_open_ledgers", "gauge", "Ledgers that the client writes.", _CLIENTS),
    Metric(
        "zbk_client_pending_bytes",
        "gauge",
        "Bytes of appends that are not acknowledged, of all writers.",
        _CLIENTS,
    ),
    Metric(
        "zbk_client_unsynced_bytes",
        "gauge",
        "Bytes of payload that are acknowledged and not known to be durable, of the VD ledger "
        "that has the most.",
        _CLIENTS,
    ),
    Metric(
        "zbk_client_unsynced_age_seconds",
        "gauge",
        "Time since the oldest entry of all ledgers that is acknowledged and not known to be "
        "durable was sent; it falls with a sync or the close.",
        _CLIENTS,
    ),
    Metric(
        "zbk_client_appended_entries_total",
        "counter",
        "Entries that were appended and acknowledged.",
        _CLIENTS,
        labels=_TYPE,
    ),
    Metric(
        "zbk_client_appended_bytes_total",
        "counter",
        "Bytes of these entries, as they count against the limits.",
        _CLIENTS,
        labels=_TYPE,
    ),
    Metric("zbk_client_failed_appends_total", "counter", "Calls of append that failed.", _CLIENTS),
    Metric(
        "zbk_client_ensemble_changes_total",
        "counter",
        "Changes of an ensemble that writers began because a bookie failed.",
        _CLIENTS,
    ),
    # ---------------------------------------------------------------- console
    Metric(
        "zbk_console_samples_total",
        "counter",
        "Samples of the cluster, by how they ended.",
        _CONSOLES,
        labels={"result": ("finished", "failed")},
    ),
    Metric(
        "zbk_console_sample_age_seconds",
        "gauge",
        "Age of the figures that the pages show: time since the last sample, or since the start.",
        _CONSOLES,
    ),
    Metric(
        "zbk_console_sample_seconds",
        "histogram",
        "Duration of each sample: what bookies report, and their rates.",
        _CONSOLES,
    ),
    Metric(
        "zbk_console_survey_seconds",
        "histogram",
        "Duration of each survey: all bookies, and the number of ledgers.",
        _CONSOLES,
    ),
    Metric("zbk_console_live_views", "gauge", "Pages that are open and live.", _CONSOLES),
)
"""The table, in the order of the pages that list it."""

BY_NAME: Final = {metric.name: metric for metric in METRICS}


def metrics_of(*processes: Process) -> tuple[Metric, ...]:
    """Return the metrics that a process of these kinds exposes."""
    return tuple(metric for metric in METRICS if set(processes) & set(metric.processes))
