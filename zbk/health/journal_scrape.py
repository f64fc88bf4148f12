"""The state of journals, from the metrics that bookies serve over HTTP.

A bookie that serves no metrics, or not to this machine, is left out.
"""

import re
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import msgspec

THREAD_COUNT: Final = 16
BOOKIE_COUNT_MAX: Final = 64
"""With more bookies none is asked: a page of metrics costs more than the info of a bookie."""

PAGE_SIZE_MAX: Final = 4 << 20
TIMEOUT_S: Final = 1.0

_LINE: Final = re.compile(
    r"^zbk_journal_(fsync_seconds_sum|fsync_seconds_count|unsynced_bytes|unsynced_age_seconds)"
    r"(?:\{[^}]*\})? (\S+)",
    re.MULTILINE,
)


class JournalMetrics(msgspec.Struct, frozen=True):
    """All journals of a bookie together; fsyncs since its start."""

    fsync_count: float
    fsync_s: float
    unsynced_size: float  # bytes that are written and not on stable storage
    unsynced_age_s: float  # of the oldest of them


def scrape_journals(
    urls: Mapping[str, str], timeout_s: float = TIMEOUT_S
) -> dict[str, JournalMetrics]:
    """Return the metrics of the bookies that answer in time, by bookie id.

    ``urls`` by bookie id, as registered; those that are no web address are left out.
    """
    asked = {one: url for one, url in urls.items() if url.startswith(("http://", "https://"))}
    if not asked or len(asked) > BOOKIE_COUNT_MAX:
        return {}
    with ThreadPoolExecutor(THREAD_COUNT, "zbk-scrape") as threads:
        pages = threads.map(lambda url: _page(url, timeout_s), asked.values())
        found = zip(asked, map(journal_metrics_in, pages), strict=True)
        return {bookie_id: metrics for bookie_id, metrics in found if metrics is not None}


def journal_metrics_in(page: str) -> JournalMetrics | None:
    """Return what a page of metrics says of journals; ``None`` if it says nothing.

    >>> journal_metrics_in('zbk_journal_unsynced_bytes{directory="/j"} 512.0').unsynced_size
    512.0
    """
    values: dict[str, list[float]] = {}
    for name, value in _LINE.findall(page):
        values.setdefault(name, []).append(float(value))
    if not values:
        return None
    return JournalMetrics(
        fsync_count=sum(values.get("fsync_seconds_count", ())),
        fsync_s=sum(values.get("fsync_seconds_sum", ())),
        unsynced_size=sum(values.get("unsynced_bytes", ())),
        unsynced_age_s=max(values.get("unsynced_age_seconds", ()), default=0.0),
    )


def _page(url: str, timeout_s: float) -> str:
    with (
        suppress(OSError, ValueError),
        urllib.request.urlopen(f"{url}/metrics", timeout=timeout_s) as answer,  # noqa: S310 - checked
    ):
        return str(answer.read(PAGE_SIZE_MAX).decode("utf-8", "replace"))
    return ""
