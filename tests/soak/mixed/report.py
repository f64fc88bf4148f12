"""The verdict on a run: what is demanded of it, and what came out."""

from typing import Final

import msgspec

from tests.soak.mixed.disk import DiskUse, Kept
from tests.soak.mixed.samples import Sample, Trend
from tests.soak.mixed.shelf import Counts

KIB: Final = 1024
MIB: Final = 1024 * KIB

DISK_RATIO_MAX: Final = 1.6
"""Entry logs and index against live bytes, once the last compaction is over."""

RSS_GROWTH_SIZE_MAX: Final = 8 * MIB
RSS_GROWTH_SHARE_MAX: Final = 0.05
"""Flat memory: along the line of the second half no more than the larger of these two, the second
one as a share of the mean."""

FD_GROWTH_MAX: Final = 5.0
"""Flat descriptors: along the line of the second half."""

JUDGED_MINUTES_MIN: Final = 20.0
"""In a shorter run caches still fill: its lines are shown, and not judged."""

JUDGED_LIFE_SECONDS_MIN: Final = 600.0
"""Of a process that was killed and started again: likewise. One bookie is spared from a quarter of
the run on, so that there is a long life to judge, and its caches are full when that begins."""

SHOWN_COUNT_MAX: Final = 20  # violations in the report


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run from its beginning to its end."""

    seed: int
    minutes: float
    metadata: str
    command: str  # to run it again
    counts: Counts
    disk: DiskUse
    kept: Kept
    trends: dict[str, Trend]
    failures: list[str]
    violations: list[str]
    samples: list[Sample]

    @property
    def disk_ratio(self) -> float:
        """Disk use against live bytes."""
        return self.disk.stored_size / max(1, self.kept.live_size)


def failures_of(report: Report) -> list[str]:
    """Return what was demanded and is not so."""
    found = [f"violation: {story}" for story in report.violations[:SHOWN_COUNT_MAX]]
    if report.kept.dead_ledger_count:
        found.append(f"{report.kept.dead_ledger_count} deleted ledgers are still in the index")
    if not report.counts.read_count:
        found.append("nothing was read")
    if report.minutes >= JUDGED_MINUTES_MIN:
        found += [
            f"nothing was read of {one.ledger_count} ledgers of type {name}"
            for name, one in report.counts.by_type.items()
            if one.ledger_count and not one.read_count
        ]
    if not report.counts.scrub_count:
        found.append("nothing was scrubbed")
    if report.disk_ratio > DISK_RATIO_MAX:
        found.append(f"the disks hold {report.disk_ratio:.2f} times the live bytes")
    if report.minutes >= JUDGED_MINUTES_MIN:
        for name, one in report.trends.items():
            if one.seconds >= JUDGED_LIFE_SECONDS_MIN:
                found += _growth(name, one)
    return found


def _growth(name: str, one: Trend) -> list[str]:
    found = []
    rss_max = max(RSS_GROWTH_SIZE_MAX, RSS_GROWTH_SHARE_MAX * one.rss_mean_size)
    if one.rss_growth_size > rss_max:
        found.append(
            f"{name} grew by {one.rss_growth_size / MIB:.1f} MiB in {one.seconds:.0f} s, "
            f"more than {rss_max / MIB:.1f} MiB"
        )
    if one.fd_growth > FD_GROWTH_MAX:
        found.append(f"{name} has {one.fd_growth:.1f} more descriptors after {one.seconds:.0f} s")
    return found


def markdown(report: Report) -> str:
    """Return the table for ``benchmarks/README.md``."""
    counts = report.counts
    written = f"{counts.entry_count:,} entries, {counts.written_size / MIB:,.0f} MiB"
    stored = f"{report.disk.stored_size / MIB:,.0f} / {report.kept.live_size / MIB:,.0f}"
    rows = [
        ("time, metadata", f"{report.minutes:g} min, {report.metadata}"),
        ("written", f"{written}, in {counts.ledger_count:,} ledgers"),
        ("read and compared", f"{counts.read_count:,} entries"),
        *(
            (f"of these {name}", f"{one.read_count:,}, in {one.ledger_count:,} ledgers written")
            for name, one in counts.by_type.items()
        ),
        ("ledgers deleted", f"{counts.deleted_count:,}"),
        ("kill -9 of a bookie", f"{counts.kill_count:,}"),
        ("passes of scrubbers", f"{counts.scrub_count:,}"),
        ("ledgers ended by a recovery", f"{counts.taken_over_count:,}"),
        ("calls refused and tried again", f"{counts.refused_count:,}"),
        ("entry logs and index / live bytes", f"{stored} MiB = {report.disk_ratio:.2f}"),
        (
            "besides: journals, reserves",
            f"{report.disk.journal_size / MIB:,.0f} and {report.disk.reserve_size / MIB:,.0f} MiB",
        ),
    ]
    for name, one in report.trends.items():
        per_minute = one.rss_growth_size / KIB / max(1.0, one.seconds / 60)
        rss = (
            f"RSS {one.rss_mean_size / MIB:.0f} MiB {one.rss_growth_size / MIB:+.1f} "
            f"({per_minute:+.0f} KiB a minute)"
        )
        fds = f"descriptors {one.fd_mean:.0f} {one.fd_growth:+.1f}"
        rows.append((f"{name}, last {one.seconds:.0f} s", f"{rss}, {fds}"))
    rows.append(("violations", str(len(report.violations))))
    return "\n".join(["| what | how much |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])
