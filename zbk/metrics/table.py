"""Every metric that zbk exposes. Names, units and labels follow Prometheus: base units, few labels.

No label is a ledger, a client or an address: the number of time series of a process is fixed by its
configuration. All series with known labels exist from the start, at 0. A gauge is computed when it
is scraped, so it falls when its condition clears.
"""

from typing import Final

from zbk.metrics.metric import Metric, Process

ALL: Final[tuple[Process, ...]] = ("bookie", "autorecovery", "client")
SERVERS: Final[tuple[Process, ...]] = ("bookie", "autorecovery")
TYPES: Final = ("pd_journal", "vd_journal")

METRICS: Final = (
    Metric("zbk_build_info", "info", "Versions of zbk and Python.", ALL),
    # ---------------------------------------------------------------- bookie: adds
    Metric(
        "zbk_bookie_added_entries_total",
        "counter",
        "Entries that adds stored, by ledger type; repairs and recoveries included.",
        labels={"type": TYPES},
    ),
    # ---------------------------------------------------------------- bookie: journal
    Metric(
        "zbk_journal_fsync_seconds",
        "histogram",
        "Duration of each fsync of a journal.",
        labels={"directory": ()},
    ),
)
"""The table, in the order of the pages that list it."""

BY_NAME: Final = {metric.name: metric for metric in METRICS}


def metrics_of(process: Process) -> tuple[Metric, ...]:
    """Return the metrics that a kind of process exposes."""
    return tuple(metric for metric in METRICS if process in metric.processes)
