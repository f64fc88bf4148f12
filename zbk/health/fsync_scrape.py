"""How long fsyncs of journals took, from the metrics that bookies serve over HTTP.

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

_LINE: Final = re.compile(
    r"^zbk_journal_fsync_seconds_(sum|count)(?:\{[^}]*\})? (\S+)", re.MULTILINE
)


class FsyncTotals(msgspec.Struct, frozen=True):
    """Of all journals of a bookie, since its start."""

    count: float
    duration_s: float


def scrape_fsyncs(urls: Mapping[str, str], timeout_s: float) -> dict[str, FsyncTotals]:
    """Return the totals of the bookies that answer in time, by bookie id."""
    if not urls or len(urls) > BOOKIE_COUNT_MAX:
        return {}
    with ThreadPoolExecutor(THREAD_COUNT, "zbk-scrape") as threads:
        pages = threads.map(lambda url: _page(url, timeout_s), urls.values())
        found = zip(urls, map(totals_in, pages), strict=True)
        return {bookie_id: totals for bookie_id, totals in found if totals is not None}


def totals_in(page: str) -> FsyncTotals | None:
    """Return the totals in a page of metrics; ``None`` if it has none.

    >>> totals_in('zbk_journal_fsync_seconds_sum{directory="/j"} 0.5')
    FsyncTotals(count=0, duration_s=0.5)
    """
    found = _LINE.findall(page)
    if not found:
        return None
    return FsyncTotals(
        count=sum(float(value) for kind, value in found if kind == "count"),
        duration_s=sum(float(value) for kind, value in found if kind == "sum"),
    )


def _page(url: str, timeout_s: float) -> str:
    with (
        suppress(OSError, ValueError),
        urllib.request.urlopen(f"{url}/metrics", timeout=timeout_s) as answer,  # noqa: S310 - checked
    ):
        return str(answer.read(PAGE_SIZE_MAX).decode("utf-8", "replace"))
    return ""
