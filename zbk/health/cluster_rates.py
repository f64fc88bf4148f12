"""Rates of a cluster between two samples of it. Pure."""

from typing import Final

import msgspec

from zbk.health.journal_scrape import JournalMetrics
from zbk.wire.messages import BookieInfo

COUNTERS: Final = {
    "adds_per_s": "add_entry_count",
    "add_bytes_per_s": "add_size",
    "reads_per_s": "read_entry_count",
    "read_bytes_per_s": "read_size",
    "journal_bytes_per_s": "journal_write_size",
    "fsyncs_per_s": "journal_sync_count",
}
"""Rates, and the counters of ``BookieInfo`` that they are of."""


class BookieSample(msgspec.Struct, frozen=True, kw_only=True):
    """One bookie at one moment; without ``info`` it gave no answer."""

    bookie_id: str
    is_readonly: bool
    info: BookieInfo | None = None
    journals: JournalMetrics | None = None


class ClusterSample(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment of a monotonic clock."""

    at_us: int
    bookies: tuple[BookieSample, ...]
    underreplicated_count: int = 0
    in_repair_count: int = 0


class BookieRates(msgspec.Struct, frozen=True, kw_only=True):
    """One bookie between two samples. ``rates`` is empty if they cannot be compared."""

    bookie_id: str
    state: str
    rates: dict[str, float] = {}
    cpu_share: float | None = None  # of one core
    fsync_ms: float | None = None  # mean of the fsyncs between the samples
    free_size: int | None = None
    rss_size: int | None = None


def rates_between(before: ClusterSample, after: ClusterSample) -> list[BookieRates]:
    """Return the rates of each bookie of the later sample."""
    earlier = {one.bookie_id: one for one in before.bookies}
    duration_s = max(1, after.at_us - before.at_us) / 1_000_000
    return [_rates(earlier.get(one.bookie_id), one, duration_s) for one in after.bookies]


def total(rates: list[BookieRates]) -> dict[str, float]:
    """Return the sums of the rates of all bookies."""
    return {name: sum(one.rates.get(name, 0.0) for one in rates) for name in COUNTERS}


# ------------------------------------------------------------------ private


def _rates(before: BookieSample | None, after: BookieSample, duration_s: float) -> BookieRates:
    now = after.info
    if now is None:
        return BookieRates(bookie_id=after.bookie_id, state="silent")
    found = BookieRates(
        bookie_id=after.bookie_id,
        state=_state(after, now),
        free_size=min(now.free_size, now.journal_free_size),
        rss_size=now.rss_size,
    )
    then = before.info if before is not None else None
    if before is None or then is None or then.incarnation != now.incarnation:  # it restarted
        return found
    counts = {name: getattr(now, field) - getattr(then, field) for name, field in COUNTERS.items()}
    return msgspec.structs.replace(
        found,
        rates={name: max(0, count) / duration_s for name, count in counts.items()},
        cpu_share=max(0, now.cpu_ms - then.cpu_ms) / 1_000 / duration_s,
        fsync_ms=_fsync_ms(before.journals, after.journals),
    )


def _state(sample: BookieSample, info: BookieInfo) -> str:
    if info.limbo:
        return "limbo"
    return "read-only" if sample.is_readonly or info.is_readonly else "writable"


def _fsync_ms(before: JournalMetrics | None, after: JournalMetrics | None) -> float | None:
    if before is None or after is None or after.fsync_count <= before.fsync_count:
        return None
    return 1_000 * (after.fsync_s - before.fsync_s) / (after.fsync_count - before.fsync_count)
