"""The state of journals and disks, from the metrics that bookies serve over HTTP.

A bookie that serves no metrics, or not to this machine, is left out.
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from zbk.health.web_page import web_page

THREAD_COUNT: Final = 16
BOOKIE_COUNT_MAX: Final = 64
"""With more bookies none is asked: a page of metrics costs more than the info of a bookie."""

PAGE_SIZE_MAX: Final = 4 << 20
TIMEOUT_S: Final = 1.0

_LINE: Final = re.compile(
    r"^zbk_(journal_(?:fsync|queue)_seconds_(?:sum|count)"
    r"|(?:journal|entry_log)_unsynced_(?:bytes|age_seconds)"
    r"|disk_(?:free|size)_bytes|bookie_added_entries_total)(?:\{([^}]*)\})? (\S+)",
    re.MULTILINE,
)
_VD: Final = ('type="vd_journal"', 'type="vd_bypass_journal"')


class BookieScrape(msgspec.Struct, frozen=True):
    """All journals of a bookie together, and its fullest disk; counts are since its start."""

    fsync_count: float
    fsync_s: float
    unsynced_size: float  # bytes that are written and not on stable storage
    unsynced_age_s: float  # of the oldest of them in a journal
    queue_count: float = 0.0  # groups that were written
    queue_s: float = 0.0  # that they waited until then
    vd_entry_count: float = 0.0  # entries of VD ledgers
    disk_share: float | None = None  # of the fullest disk that is in use
    log_unsynced_age_s: float = 0.0  # of the oldest bytes that are in entry logs only

    @property
    def oldest_unsynced_s(self) -> float:
        """The age of the oldest bytes that are written and not on stable storage."""
        return max(self.unsynced_age_s, self.log_unsynced_age_s)


def scrape_bookies(
    urls: Mapping[str, str], timeout_s: float = TIMEOUT_S
) -> dict[str, BookieScrape]:
    """Return the metrics of the bookies that answer in time, by bookie id.

    ``urls`` by bookie id, as registered; those that are no web address are left out.
    """
    asked = {one: url for one, url in urls.items() if url.startswith(("http://", "https://"))}
    if not asked or len(asked) > BOOKIE_COUNT_MAX:
        return {}
    with ThreadPoolExecutor(THREAD_COUNT, "zbk-scrape") as threads:
        pages = threads.map(lambda url: _page(url, timeout_s), asked.values())
        found = zip(asked, map(scrape_in, pages), strict=True)
        return {bookie_id: metrics for bookie_id, metrics in found if metrics is not None}


def scrape_in(page: str) -> BookieScrape | None:
    """Return what a page of metrics says of journals and disks; ``None`` if it says nothing.

    >>> scrape_in('zbk_journal_unsynced_bytes{directory="/j"} 512.0').unsynced_size
    512.0
    """
    values: dict[str, dict[str, float]] = {}  # by labels
    for name, labels, value in _LINE.findall(page):
        values.setdefault(name, {})[labels] = float(value)
    if not values:
        return None

    def found(name: str) -> list[float]:
        return list(values.get(name, {}).values())

    added = values.get("bookie_added_entries_total", {})
    free, sizes = values.get("disk_free_bytes", {}), values.get("disk_size_bytes", {})
    used = [1 - free[one] / size for one, size in sizes.items() if one in free and size > 0]
    return BookieScrape(
        fsync_count=sum(found("journal_fsync_seconds_count")),
        fsync_s=sum(found("journal_fsync_seconds_sum")),
        unsynced_size=sum(found("journal_unsynced_bytes") + found("entry_log_unsynced_bytes")),
        unsynced_age_s=max(found("journal_unsynced_age_seconds"), default=0.0),
        log_unsynced_age_s=max(found("entry_log_unsynced_age_seconds"), default=0.0),
        queue_count=sum(found("journal_queue_seconds_count")),
        queue_s=sum(found("journal_queue_seconds_sum")),
        vd_entry_count=sum(added.get(one, 0.0) for one in _VD),
        disk_share=max(used, default=None),
    )


def _page(url: str, timeout_s: float) -> str:
    return web_page(f"{url}/metrics", timeout_s, PAGE_SIZE_MAX).decode("utf-8", "replace")
