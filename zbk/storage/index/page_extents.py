"""The pages of an index file that were written, and their slots in the file.

A *slot* is the room of one page in the file. Pages get slots in the order of their first write, so
the length of a file depends on the number of its pages, not on their numbers: one entry with the
highest possible id takes one slot. An *extent* is a run of pages in consecutive slots. It grows at
its end while the next slot is free.

    a ledger that grows alone           one extent, as long as the file
    pages far from all others           a new extent, at the end of the file
    a run that another one cut off      a new extent, with room for twice the pages of the extent
                                        that it continues: a long run that grows beside others has
                                        few extents, and at most two thirds of the file are reserved

Limit: ``EXTENT_COUNT_MAX`` extents. Adds that would make more than half as many are refused before
they are stored, because a replay of admitted adds may cut runs elsewhere. An honest ledger does not
reach the limit: it gets another extent only where this bookie has left the ensemble and returned,
or received copies, and its metadata (a ZooKeeper node of at most a MiB) cannot hold so many
fragments. A striped ledger has entries in each page at each bookie of its ensemble, unless a
thousand bookies share it.

Files of older versions have each page in the slot of its number, and at most 56 extents. If there
were more, the two nearest became one *sparse* extent, in which zeros mean "never written". These
extents grow as all others do.

Pure. Source: zbk's; the extents of ext4 and XFS.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

EXTENT_COUNT_MAX: Final = 4_092
"""Six pages of them (``zbk.storage.index.index_file``)."""

ADMITTED_COUNT_MAX: Final = EXTENT_COUNT_MAX // 2
"""Extents up to which adds may make new ones."""


class Extent(NamedTuple):
    """A run of pages."""

    first: int  # page
    last: int
    slot: int  # of the first one
    is_sparse: bool = False

    @property
    def slot_end(self) -> int:
        """The slot after its last page."""
        return self.slot + self.last - self.first + 1


class PageExtents:
    """Sorted, disjoint runs of pages.

    >>> extents = PageExtents()
    >>> extents.add([0, 1, 2, 9])
    >>> list(extents), extents.holds(1), extents.holds(5), extents.slot_of(9)
    ([(0, 2, False), (9, 9, False)], True, False, 3)
    """

    def __init__(
        self,
        extents: Iterable[Extent] = (),
        slot_count: int = 0,
        directory_slots: Sequence[int] = (),
    ) -> None:
        """``directory_slots``: of pages in the file that hold extents instead of locations."""
        self._extents = list(extents)
        self.directory_slots = list(directory_slots)
        # slots at which an extent must stop growing
        self._slots = sorted([*(one.slot for one in self._extents), *directory_slots])
        self.slot_count = max(slot_count, self.slot_end)  # taken, or reserved

    def __iter__(self) -> Iterator[tuple[int, int, bool]]:
        return ((one.first, one.last, one.is_sparse) for one in self._extents)

    def __len__(self) -> int:
        return len(self._extents)

    @property
    def placed(self) -> Iterator[Extent]:
        """The extents, with their slots."""
        return iter(self._extents)

    @property
    def is_in_order(self) -> bool:
        """True if each page is in the slot of its number."""
        return all(one.slot == one.first for one in self._extents)

    @property
    def slot_end(self) -> int:
        """The slot after the last one that was written."""
        ends = [one.slot_end for one in self._extents]
        return max([*ends, *(slot + 1 for slot in self.directory_slots)], default=0)

    def holds(self, page_no: int) -> bool:
        """Return whether the page was written, or may be, in a sparse extent."""
        return self._find(page_no) is not None

    def is_sparse_at(self, page_no: int) -> bool:
        """Return whether the page is in a sparse extent and may be a hole."""
        extent = self._find(page_no)
        return extent is not None and extent.is_sparse

    def slot_of(self, page_no: int) -> int:
        """Return the slot of a written page."""
        extent = self._find(page_no)
        assert extent is not None, "it has a slot once it is written"
        return extent.slot + page_no - extent.first

    def add(self, page_nos: Iterable[int]) -> None:
        """Give slots to the pages that have none."""
        for page_no in page_nos:
            if not self.holds(page_no):
                self._insert(page_no)
        assert len(self._extents) <= EXTENT_COUNT_MAX, "adds stop at half as many"

    def grow_directory(self, page_count: int) -> None:
        """Reserve at least so many slots for pages that hold extents."""
        while len(self.directory_slots) < page_count:
            self.directory_slots.append(self.slot_count)
            self._slots.append(self.slot_count)
            self.slot_count += 1

    def next_page(self, page_no: int) -> int | None:
        """Return the first written page at or after ``page_no``, or ``None``."""
        at = self._index(page_no)
        if at >= 0 and page_no <= self._extents[at].last:
            return page_no
        return self._extents[at + 1].first if at + 1 < len(self._extents) else None

    def _index(self, page_no: int) -> int:
        return bisect_right(self._extents, page_no, key=_first_of) - 1

    def _find(self, page_no: int) -> Extent | None:
        at = self._index(page_no)
        return self._extents[at] if at >= 0 and page_no <= self._extents[at].last else None

    def _insert(self, page_no: int) -> None:
        at = self._index(page_no)
        ahead = self._extents[at] if at >= 0 else None
        reserve = 1
        if ahead is not None and ahead.last == page_no - 1:
            if ahead.slot_end < self._limit(ahead):
                self._extents[at] = ahead._replace(last=page_no)
                self.slot_count = max(self.slot_count, ahead.slot_end + 1)
                return
            reserve = 2 * (ahead.last - ahead.first + 1)
        self._extents.insert(at + 1, Extent(page_no, page_no, self.slot_count))
        self._slots.append(self.slot_count)
        self.slot_count += reserve

    def _limit(self, extent: Extent) -> int:
        """Return the slot up to which an extent may grow."""
        at = bisect_right(self._slots, extent.slot)
        return self._slots[at] if at < len(self._slots) else extent.slot_end + 1


def _first_of(extent: Extent) -> int:
    return extent.first
