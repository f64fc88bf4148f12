"""Which pages of an index file were ever written.

Kept in the file's header, so that a page that reads as zeros can be told from a page that was
never there: the first is damage, the second says "absent". An *extent* is a run of pages. There
are at most ``EXTENT_COUNT_MAX``; beyond that the two nearest become one *sparse* extent, in which
zeros have to be taken for "never written". A ledger has more than one extent only if this bookie
left its ensemble and came back, or is one of a wide stripe with long runs of nothing.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

EXTENT_COUNT_MAX: Final = 56


class PageExtents:
    """Sorted, disjoint runs of pages: first, last, is_sparse; between two there is a gap.

    >>> extents = PageExtents()
    >>> extents.add([0, 1, 2, 9])
    >>> list(extents), extents.holds(1), extents.holds(5)
    ([(0, 2, False), (9, 9, False)], True, False)
    """

    def __init__(self, extents: Iterable[tuple[int, int, bool]] = ()) -> None:
        self._extents = list(extents)

    def __iter__(self) -> Iterator[tuple[int, int, bool]]:
        return iter(self._extents)

    def __len__(self) -> int:
        return len(self._extents)

    def holds(self, page_no: int) -> bool:
        """Tell whether the page was, or in a sparse extent may have been, written."""
        return self._find(page_no) is not None

    def is_sparse_at(self, page_no: int) -> bool:
        """Tell whether the page may be a hole though its extent says that it was written."""
        extent = self._find(page_no)
        return extent is not None and extent[2]

    def add(self, page_nos: Iterable[int]) -> None:
        """Note that these pages are written now."""
        for page_no in page_nos:
            if not self.holds(page_no):
                self._insert(page_no)
        while len(self._extents) > EXTENT_COUNT_MAX:
            self._merge_nearest()

    def next_page(self, page_no: int) -> int | None:
        """Return the first page at ``page_no`` or behind it that was written, or ``None``."""
        at = self._index(page_no)
        if at >= 0 and page_no <= self._extents[at][1]:
            return page_no
        return self._extents[at + 1][0] if at + 1 < len(self._extents) else None

    def _index(self, page_no: int) -> int:
        return bisect_right(self._extents, page_no, key=lambda extent: extent[0]) - 1

    def _find(self, page_no: int) -> tuple[int, int, bool] | None:
        at = self._index(page_no)
        return self._extents[at] if at >= 0 and page_no <= self._extents[at][1] else None

    def _insert(self, page_no: int) -> None:
        at = self._index(page_no)
        first, last, low, high = page_no, page_no, at + 1, at + 1
        is_sparse = False
        if at >= 0 and self._extents[at][1] == page_no - 1:
            first, is_sparse, low = self._extents[at][0], self._extents[at][2], at
        if at + 1 < len(self._extents) and self._extents[at + 1][0] == page_no + 1:
            last, high = self._extents[at + 1][1], at + 2
            is_sparse |= self._extents[at + 1][2]
        self._extents[low:high] = [(first, last, is_sparse)]

    def _merge_nearest(self) -> None:
        gaps = [
            (behind[0] - ahead[1], at) for at, (ahead, behind) in enumerate(pairwise(self._extents))
        ]
        _, at = min(gaps)
        merged = (self._extents[at][0], self._extents[at + 1][1], True)
        self._extents[at : at + 2] = [merged]
