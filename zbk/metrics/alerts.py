"""The alerts: one table, and the rules file of Prometheus made of it.

An expression names each bookie, process or disk by the labels of its series, so that an alert says
where it fires. Gauges of the whole cluster, which each autorecovery process reports, are reduced to
one value. Each alert has a section in the runbooks under its name.
"""

import json
from typing import Final, Literal, TypeAlias

import msgspec

Severity: TypeAlias = Literal["critical", "warning", "info"]

RUNBOOKS: Final = "docs/runbooks.md"


class Alert(msgspec.Struct, frozen=True):
    """One alert."""

    name: str
    expression: str
    wait: str  # how long the expression holds before the alert fires
    severity: Severity
    summary: str


def _p99(metric: str, labels: str, selector: str = "") -> str:
    rate = f"rate({metric}_bucket{selector}[5m])"
    return f"histogram_quantile(0.99, sum by ({labels}, le) ({rate}))"


ALERTS: Final = (
    Alert(
        "ZbkBookiesLost",
        "max(zbk_auditor_lost_bookies) > 0",
        "10m",
        "critical",
        "{{ $value }} bookies are lost: ledgers have fewer copies than they should.",
    ),
    Alert(
        "ZbkBookieUnregistered",
        "zbk_bookie_registered == 0",
        "1m",
        "critical",
        "Bookie {{ $labels.instance }} runs and is not registered: clients do not find it.",
    ),
    Alert(
        "ZbkMetadataDisconnected",
        "zbk_metadata_connected == 0",
        "1m",
        "critical",
        "{{ $labels.instance }} has no session with the metadata store.",
    ),
    Alert(
        "ZbkDirectoryFailed",
        "zbk_bookie_failed_directories > 0",
        "0m",
        "critical",
        "Bookie {{ $labels.instance }} runs without {{ $value }} of its directories.",
    ),
    Alert(
        "ZbkDamageFound",
        "zbk_scrub_damaged_entries > 0 or zbk_scrub_damaged_files > 0",
        "0m",
        "critical",
        "The last scrub of bookie {{ $labels.instance }} has found damage on its disks.",
    ),
    Alert(
        "ZbkLedgersUnrepairable",
        "max(zbk_unrepairable_ledgers) > 0",
        "0m",
        "critical",
        "{{ $value }} ledgers have lost entries that no bookie holds.",
    ),
    Alert(
        "ZbkLedgersUnderReplicated",
        "max(zbk_underreplicated_ledgers) > 0",
        "30m",
        "warning",
        "{{ $value }} ledgers have waited for repair for half an hour.",
    ),
    Alert(
        "ZbkRepairStalled",
        "max(zbk_underreplicated_ledgers) > 0 and max(zbk_repair_completion_seconds) == +Inf",
        "30m",
        "critical",
        "Ledgers wait for repair, and their number does not fall.",
    ),
    Alert(
        "ZbkNoAuditor",
        "(sum(zbk_auditor_leader) or vector(0)) < 1",
        "2m",
        "critical",
        "No process audits: the loss of a bookie would not be noticed.",
    ),
    Alert(
        "ZbkAuditorBrake",
        "max(zbk_auditor_brake) == 1",
        "10m",
        "critical",
        "So many bookies are gone at once that the auditor holds repairs back.",
    ),
    Alert(
        "ZbkAutorecoveryDisabled",
        "min(zbk_autorecovery_enabled) == 0",
        "1h",
        "warning",
        "Autorecovery has been disabled for an hour.",
    ),
    Alert(
        "ZbkLedgersInLimbo",
        "zbk_limbo_ledgers > 0",
        "1h",
        "warning",
        "Bookie {{ $labels.instance }} has not re-checked {{ $value }} ledgers after a loss.",
    ),
    Alert(
        "ZbkBookieReadOnly",
        "zbk_bookie_read_only == 1",
        "5m",
        "warning",
        "Bookie {{ $labels.instance }} refuses new entries: its disk is full.",
    ),
    Alert(
        "ZbkDiskSpaceLow",
        "zbk_disk_free_bytes / zbk_disk_size_bytes < 0.1",
        "10m",
        "warning",
        "{{ $labels.directory }} of {{ $labels.instance }} has {{ $value | humanizePercentage }} "
        "of its disk free.",
    ),
    Alert(
        "ZbkReserveMissing",
        "zbk_disk_reserve_missing == 1",
        "10m",
        "warning",
        "Bookie {{ $labels.instance }} has used the space that it keeps for a full disk.",
    ),
    Alert(
        "ZbkFsyncSlow",
        f"{_p99('zbk_journal_fsync_seconds', 'instance, directory')} > 0.5",
        "10m",
        "warning",
        "The fsyncs of journal {{ $labels.directory }} of {{ $labels.instance }} take "
        "{{ $value | humanizeDuration }} (p99).",
    ),
    Alert(
        "ZbkAddsSlow",
        _p99("zbk_bookie_answer_seconds", "instance, type") + " > 1",
        "10m",
        "warning",
        "Bookie {{ $labels.instance }} answers adds to {{ $labels.type }} ledgers after "
        "{{ $value | humanizeDuration }} (p99).",
    ),
    Alert(
        "ZbkUnsyncedOld",
        "zbk_journal_unsynced_age_seconds > 30",
        "1m",
        "warning",
        "Journal {{ $labels.directory }} of {{ $labels.instance }} has bytes that were not "
        "synced for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "ZbkEntryLogUnsyncedOld",
        "zbk_entry_log_unsynced_age_seconds > 120",  # a pause between checkpoints takes 60
        "1m",
        "warning",
        "Bookie {{ $labels.instance }} has bytes of bypass ledgers in entry logs that were not "
        "synced for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "ZbkCheckpointStalled",
        "zbk_checkpoint_age_seconds > 600",
        "5m",
        "warning",
        "Bookie {{ $labels.instance }} has ended no checkpoint for "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        "ZbkRequestsRefused",
        "sum by (instance, result) "
        '(rate(zbk_bookie_refusals_total{result=~"busy|malformed|other"}[5m])) > 1',
        "10m",
        "warning",
        "Bookie {{ $labels.instance }} refuses {{ $value | humanize }} requests a second "
        "({{ $labels.result }}).",
    ),
    Alert(
        "ZbkGarbageStays",
        "zbk_gc_gave_up == 1",
        "1h",
        "warning",
        "Bookie {{ $labels.instance }} cannot collect deleted ledgers.",
    ),
    Alert(
        "ZbkDamageUnreported",
        "zbk_scrub_unreported_ledgers > 0",
        "1h",
        "warning",
        "Bookie {{ $labels.instance }} could not report {{ $value }} damaged ledgers for repair.",
    ),
    Alert(
        "ZbkConsoleBlind",
        "zbk_console_sample_age_seconds > 60",
        "5m",
        "info",
        "The console {{ $labels.instance }} shows figures that are {{ $value }} seconds old.",
    ),
)
"""The alerts, the most serious ones first."""


def runbook_url(alert: Alert, runbooks: str = RUNBOOKS) -> str:
    """Return the link to an alert's section; ``runbooks`` is where the page is published."""
    return f"{runbooks}#{alert.name.lower()}"


def rules(runbooks: str = RUNBOOKS) -> str:
    """Return a rules file of Prometheus, as YAML."""
    lines = ["groups:", "  - name: zbk", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.wait}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          runbook_url: {json.dumps(runbook_url(alert, runbooks))}",
        ]
    return "\n".join([*lines, ""])
