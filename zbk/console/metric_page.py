"""Latency histograms in a bookie's page of metrics, and percentiles of them. Pure."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.metrics.metric import LATENCY_BOUNDS_US

_LINE: Final = re.compile(r"^(zbk_\w+_seconds)_bucket\{([^}]*)\} (\S+)", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

SERIES: Final = {
    "add PD": ("zbk_bookie_answer_seconds", "pd_journal"),
    "add VD": ("zbk_bookie_answer_seconds", "vd_journal"),
    "add VD bypass": ("zbk_bookie_answer_seconds", "vd_bypass_journal"),
    "read": ("zbk_bookie_read_seconds", ""),
    "fsync": ("zbk_journal_fsync_seconds", ""),
}
"""The rows of the heat map: metric, and the value of its label ``type``."""

STAGES: Final = {
    "queue": ("zbk_bookie_queue_seconds", ""),
    "journal queue": ("zbk_journal_queue_seconds", ""),
    "journal write": ("zbk_journal_write_seconds", ""),
    "fsync": ("zbk_journal_fsync_seconds", ""),
}
"""The stages of an add in a bookie, in their order."""


class Percentiles(msgspec.Struct, frozen=True):
    """Of one histogram. Times in milliseconds, upper bounds of buckets; ``None``: no value."""

    count: int
    p50_ms: float | None
    p99_ms: float | None


def histograms_in(page: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the counts in each bucket, by metric and type; other labels are summed.

    >>> page = 'zbk_bookie_read_seconds_bucket{le="5e-05"} 3.0'
    >>> histograms_in(page)[("zbk_bookie_read_seconds", "")][0]
    3
    """
    cumulative: dict[tuple[str, str], dict[float, float]] = {}
    for name, labels, value in _LINE.findall(page):
        found = dict(_LABEL.findall(labels))
        counts = cumulative.setdefault((name, found.get("type", "")), {})
        bound = float(found.get("le", "inf"))
        counts[bound] = counts.get(bound, 0.0) + float(value)
    return {key: _steps([one for _, one in sorted(of.items())]) for key, of in cumulative.items()}


def percentiles(counts: Sequence[int]) -> Percentiles:
    """Return the percentiles of a histogram.

    >>> percentiles([0] * 4 + [99, 1])
    Percentiles(count=100, p50_ms=1.0, p99_ms=1.0)
    """
    return Percentiles(sum(counts), _quantile_ms(counts, 0.5), _quantile_ms(counts, 0.99))


def increase(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    """Return the counts that came between two pages; those of a restarted process are new."""
    if len(before) != len(after) or sum(after) < sum(before):
        return tuple(after)
    return tuple(max(0, b - a) for a, b in zip(before, after, strict=True))


def _steps(cumulative: Sequence[float]) -> tuple[int, ...]:
    return tuple(int(b - a) for a, b in zip([0.0, *cumulative[:-1]], cumulative, strict=True))


def _quantile_ms(counts: Sequence[int], share: float) -> float | None:
    wanted, seen = share * sum(counts), 0
    for number, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return LATENCY_BOUNDS_US[min(number, len(LATENCY_BOUNDS_US) - 1)] / 1_000
    return None
