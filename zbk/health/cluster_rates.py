"""Rates of a cluster between two samples of it. Pure."""

from typing import Final

import msgspec

from zbk.health.bookie_scrape import BookieScrape
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
    scraped: BookieScrape | None = None


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
    queue_ms: float | None = None  # mean wait of the writes to journals between the samples
    vd_adds_per_s: float | None = None  # entries of VD ledgers
    disk_share: float | None = None  # of the fullest disk that is in use
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
        disk_share=None if after.scraped is None else after.scraped.disk_share,
    )
    then = before.info if before is not None else None
    if before is None or then is None or then.incarnation != now.incarnation:  # it restarted
        return found
    counts = {name: getattr(now, field) - getattr(then, field) for name, field in COUNTERS.items()}
    return msgspec.structs.replace(
        found,
        rates={name: max(0, count) / duration_s for name, count in counts.items()},
        cpu_share=max(0, now.cpu_ms - then.cpu_ms) / 1_000 / duration_s,
        **_of_journals(before.scraped, after.scraped, duration_s),
    )


def _state(sample: BookieSample, info: BookieInfo) -> str:
    if info.limbo:
        return "limbo"
    return "read-only" if sample.is_readonly or info.is_readonly else "writable"


def _of_journals(
    before: BookieScrape | None, after: BookieScrape | None, duration_s: float
) -> dict[str, float | None]:
    if before is None or after is None:
        return {}
    return {
        "fsync_ms": _mean_ms(
            after.fsync_s - before.fsync_s, after.fsync_count - before.fsync_count
        ),
        "queue_ms": _mean_ms(
            after.queue_s - before.queue_s, after.queue_count - before.queue_count
        ),
        "vd_adds_per_s": max(0.0, after.vd_entry_count - before.vd_entry_count) / duration_s,
    }


def _mean_ms(seconds: float, count: float) -> float | None:
    return 1_000 * seconds / count if count > 0 else None
