"""The Grafana dashboard, built from a list of rows and panels.

The dashboard asks for its Prometheus data source when it is imported, and filters by ``instance``.
"""

import json
from typing import Any, Final

import msgspec

PANEL_WIDTH: Final = 8
PANEL_HEIGHT: Final = 7
COLUMN_COUNT: Final = 24
RATE: Final = "[$__rate_interval]"

_JOURNAL: Final = "instance, directory"
_BOOKIE: Final = '{instance=~"$instance"}'


class Panel(msgspec.Struct, frozen=True):
    """One panel: its queries with the legends of their series, and the unit of its axis."""

    title: str
    queries: dict[str, str]  # expression to legend
    unit: str = "short"
    is_stat: bool = False  # one number, not a graph


def _rate(metric: str, by: str = "instance") -> str:
    return f"sum by ({by}) (rate({metric}{_BOOKIE}{RATE}))"


def _quantiles(metric: str, by: str = "instance") -> dict[str, str]:
    rate = f"sum by ({by}, le) (rate({metric}_bucket{_BOOKIE}{RATE}))"
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return {
        f"histogram_quantile({quantile}, {rate})": f"p{quantile * 100:g} {legend}"
        for quantile in (0.5, 0.99)
    }


def _hits(metric: str) -> dict[str, str]:
    hits = f'sum(rate({metric}{{instance=~"$instance",result="hit"}}{RATE}))'
    return {f"{hits} / sum(rate({metric}{_BOOKIE}{RATE}))": metric.removesuffix("_lookups_total")}


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Cluster": (
        Panel(
            "Bookies",
            {
                f"sum(zbk_bookie_registered{_BOOKIE})": "registered",
                f"sum(zbk_bookie_read_only{_BOOKIE})": "read-only",
                "max(zbk_auditor_lost_bookies)": "lost",
            },
            is_stat=True,
        ),
        Panel(
            "Ledgers",
            {
                "max(zbk_underreplicated_ledgers)": "under-replicated",
                "max(zbk_unrepairable_ledgers)": "unrepairable",
                f"sum(zbk_limbo_ledgers{_BOOKIE})": "in limbo",
            },
            is_stat=True,
        ),
        Panel(
            "Metadata sessions",
            {"zbk_metadata_connected": "{{instance}}"},
        ),
    ),
    "Load": (
        Panel("Added entries", {_rate("zbk_bookie_added_entries_total", "type"): "{{type}}"}),
        Panel(
            "Added and read bytes",
            {
                _rate("zbk_bookie_added_bytes_total", "type"): "added {{type}}",
                f"sum(rate(zbk_bookie_read_bytes_total{_BOOKIE}{RATE}))": "read",
            },
            "Bps",
        ),
        Panel("Refused requests", {_rate("zbk_bookie_refusals_total", "result"): "{{result}}"}),
    ),
    "Where the time goes": (
        Panel("Answers to adds", _quantiles("zbk_bookie_answer_seconds", "type"), "s"),
        Panel("Wait for the storage actor", _quantiles("zbk_bookie_queue_seconds"), "s"),
        Panel("Wait for the journal", _quantiles("zbk_journal_queue_seconds"), "s"),
        Panel("Journal writes", _quantiles("zbk_journal_write_seconds", _JOURNAL), "s"),
        Panel("Journal fsyncs", _quantiles("zbk_journal_fsync_seconds", _JOURNAL), "s"),
        Panel("Reads", _quantiles("zbk_bookie_read_seconds"), "s"),
        Panel(
            "Fsync latency, as a heat map",
            {f"sum by (le) (increase(zbk_journal_fsync_seconds_bucket{_BOOKIE}{RATE}))": "{{le}}"},
        ),
    ),
    "Durability": (
        Panel(
            "Un-synced bytes",
            {
                f"zbk_journal_unsynced_bytes{_BOOKIE}": "{{instance}} {{directory}}",
                f"zbk_entry_log_unsynced_bytes{_BOOKIE}": "{{instance}} entry logs",
            },
            "bytes",
        ),
        Panel(
            "Age of the oldest un-synced bytes",
            {
                f"zbk_journal_unsynced_age_seconds{_BOOKIE}": "{{instance}} {{directory}}",
                f"zbk_entry_log_unsynced_age_seconds{_BOOKIE}": "{{instance}} entry logs",
            },
            "s",
        ),
        Panel(
            "Time since the last checkpoint",
            {f"zbk_checkpoint_age_seconds{_BOOKIE}": "{{instance}}"},
            "s",
        ),
    ),
    "Recovery": (
        Panel("Ledgers to repair", {"max(zbk_underreplicated_ledgers)": "under-replicated"}),
        Panel("Estimated time to completion", {"min(zbk_repair_completion_seconds)": "left"}, "s"),
        Panel(
            "Copied bytes",
            {f"sum by (instance) (rate(zbk_repair_copied_bytes_total{RATE}))": "{{instance}}"},
            "Bps",
        ),
        Panel(
            "Repairs",
            {f"sum by (result) (rate(zbk_repairs_total{RATE}))": "{{result}}"},
        ),
        Panel("Brake", {"max(zbk_auditor_brake)": "on"}),
    ),
    "Storage": (
        Panel(
            "Free space",
            {
                f"zbk_disk_free_bytes{_BOOKIE} / zbk_disk_size_bytes{_BOOKIE}": (
                    "{{instance}} {{directory}}"
                )
            },
            "percentunit",
        ),
        Panel(
            "Entry logs",
            {
                f"sum by (instance) (zbk_entry_log_bytes{_BOOKIE})": "{{instance}}",
                f"sum by (instance) (zbk_entry_log_dead_bytes{_BOOKIE})": "{{instance}} dead",
            },
            "bytes",
        ),
        Panel(
            "Cache hits",
            {
                **_hits("zbk_index_page_lookups_total"),
                **_hits("zbk_index_header_lookups_total"),
                **_hits("zbk_open_file_lookups_total"),
            },
            "percentunit",
        ),
        Panel(
            "Index memory",
            {
                f"zbk_index_memory_bytes{_BOOKIE}": "{{instance}}",
                f"zbk_index_dirty_bytes{_BOOKIE}": "{{instance}} dirty",
            },
            "bytes",
        ),
        Panel(
            "Garbage collection and compaction",
            {
                f"sum(rate(zbk_gc_freed_bytes_total{_BOOKIE}{RATE}))": "collected",
                f"sum(rate(zbk_compaction_freed_bytes_total{_BOOKIE}{RATE}))": "compacted",
                f"sum(rate(zbk_compaction_copied_bytes_total{_BOOKIE}{RATE}))": "copied",
            },
            "Bps",
        ),
        Panel("Scrub", {f"zbk_scrub_progress_ratio{_BOOKIE}": "{{instance}}"}, "percentunit"),
    ),
    "Connections": (
        Panel("Clients", {f"zbk_bookie_peers{_BOOKIE}": "{{instance}}"}),
        Panel("Credit in use", {f"zbk_bookie_in_flight_bytes{_BOOKIE}": "{{instance}}"}, "bytes"),
        Panel("Messages", {_rate("zbk_bookie_messages_total"): "{{instance}}"}),
    ),
}
"""The rows of the dashboard."""


def dashboard() -> str:
    """Return the dashboard as JSON, to be imported into Grafana."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(
            {"type": "row", "title": title, "collapsed": False, "panels": [], "id": len(panels) + 1}
            | {"gridPos": {"x": 0, "y": top, "w": COLUMN_COUNT, "h": 1}}
        )
        top += 1
        for number, panel in enumerate(row):
            column = number % (COLUMN_COUNT // PANEL_WIDTH)
            if number and column == 0:
                top += PANEL_HEIGHT
            place = {"x": column * PANEL_WIDTH, "y": top, "w": PANEL_WIDTH, "h": PANEL_HEIGHT}
            panels.append(_panel(panel) | {"id": len(panels) + 1, "gridPos": place})
        top += PANEL_HEIGHT
    shown = {
        "title": "zbk",
        "uid": "zbk",
        "tags": ["zbk"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }
    return json.dumps(shown, indent=2) + "\n"


def _panel(panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "$datasource"}
    kind = "stat" if panel.is_stat else "timeseries"
    if "heat map" in panel.title:
        kind = "heatmap"
    return {
        "type": kind,
        "title": panel.title,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": source,
                "expr": expression,
                "legendFormat": legend,
                "format": "heatmap" if kind == "heatmap" else "time_series",
            }
            for number, (expression, legend) in enumerate(panel.queries.items())
        ],
    }


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "instance",
            "label": "Bookie",
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "$datasource"},
            "query": "label_values(zbk_bookie_registered, instance)",
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "refresh": 2,
        },
    ]
