"""The offsets of the clocks of bookies, from the time that they serve at ``/version``.

A bookie that serves no HTTP, or not to this machine, or an older version of zbk, is left out.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from zbk.conversion import decode_json
from zbk.health.bookie_scrape import BOOKIE_COUNT_MAX, THREAD_COUNT, TIMEOUT_S
from zbk.health.web_page import web_page
from zbk.system.clock import monotonic_us, wall_ms

PAGE_SIZE_MAX: Final = 4_096


class _Version(msgspec.Struct):
    time_ms: int


def clock_offsets_ms(urls: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> dict[str, int]:
    """Return by how much each clock is ahead of this machine's, by bookie id; negative: behind.

    The error is half the round trip at most. An offset within the error is 0. At most
    ``BOOKIE_COUNT_MAX`` bookies are asked.
    """
    web = {one: url for one, url in urls.items() if url.startswith(("http://", "https://"))}
    asked = dict(list(web.items())[:BOOKIE_COUNT_MAX])
    if not asked:
        return {}
    with ThreadPoolExecutor(THREAD_COUNT, "zbk-clocks") as threads:
        offsets = threads.map(lambda url: _offset_ms(url, timeout_s), asked.values())
        return {one: ms for one, ms in zip(asked, offsets, strict=True) if ms is not None}


def _offset_ms(url: str, timeout_s: float) -> int | None:
    started_us = monotonic_us()
    page = web_page(f"{url}/version", timeout_s, PAGE_SIZE_MAX)
    now_ms = wall_ms()
    error_ms = (monotonic_us() - started_us) / 2_000
    try:
        told_ms = decode_json(page, _Version).time_ms
    except (msgspec.DecodeError, ValueError):
        return None
    offset_ms = told_ms - (now_ms - error_ms)
    is_within_error = abs(offset_ms) <= error_ms + 1  # both times are cut to milliseconds
    return 0 if is_within_error else round(offset_ms)
