"""Entry ids, and the places in index pages that belong to them. Everything in C, but for pages.

Words: a *slot* is a place in a page; entry ``e`` has slot ``e % 1024`` of page ``e // 1024``.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from zbk.storage.entry_logs.location import ABSENT
from zbk.storage.index.index_page import PAGE_BITS, PAGE_ENTRY_COUNT

SLOT_MASK: Final = PAGE_ENTRY_COUNT - 1

_ABSENT_BYTES: Final = bytes(8)


def page_runs(entry_ids: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    """Cut ascending ids at page borders: page, first index, index after the last.

    >>> list(page_runs(range(1022, 1026)))
    [(0, 0, 2), (1, 2, 4)]
    """
    if not entry_ids:
        return ()
    first_no, last_no, count = entry_ids[0] >> PAGE_BITS, entry_ids[-1] >> PAGE_BITS, len(entry_ids)
    if first_no == last_no:  # as nearly all are
        return ((first_no, 0, count),)
    if first_no + 1 == last_no:
        border = bisect_left(entry_ids, last_no << PAGE_BITS)
        return ((first_no, 0, border), (last_no, border, count))
    return _page_runs(entry_ids)


def _page_runs(entry_ids: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    low, count = 0, len(entry_ids)
    while low < count:
        page_no = entry_ids[low] >> PAGE_BITS
        high = bisect_left(entry_ids, (page_no + 1) << PAGE_BITS, low)
        yield page_no, low, high
        low = high


def find_absent(locations: "array[int]", start: int = 0) -> int | None:
    """Return the place of the first absent entry from ``start`` on, or ``None``.

    >>> find_absent(array("Q", [7, 0, 9, 0]), 2)
    3
    """
    if locations.tobytes().find(_ABSENT_BYTES, 8 * start) < 0:  # 40 times as fast as a loop
        return None
    try:
        return locations.index(ABSENT, start)
    except ValueError:  # zero bytes of two neighbours
        return None


def find_present(locations: "array[int]", start: int = 0) -> int | None:
    """Return the place of the first entry that is here from ``start`` on, or ``None``."""
    rest = locations[start:].tobytes()
    present = rest.lstrip(b"\0")
    return start + (len(rest) - len(present)) // 8 if present else None
