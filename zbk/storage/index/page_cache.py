"""The pages of the index in memory, by ledger and number; whole, or only their ends.

A page that a ledger grows in is read, and so verified, before the first add to it. Then it is
evicted, and the cache keeps only the added locations. A look-up of earlier entries reads the page
again.

After a flush, growing pages stay whole while all of them fit into a part of the room: then the next
flush need not read a page before it writes it. Otherwise only locations that were added during the
flush are kept.

Owned by the thread that owns the index.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, TypeAlias

from zbk.errors import ScatteredLedgerError
from zbk.storage.index.index_file import IndexReader, LedgerIndex
from zbk.storage.index.index_page import PAGE_BITS, Page
from zbk.storage.index.page_extents import ADMITTED_COUNT_MAX
from zbk.storage.index.page_slots import SLOT_MASK
from zbk.storage.index.write_back import WriteBackCache

PageKey: TypeAlias = int
"""Ledger and page number in one integer, which compares faster than a tuple."""

_PAGE_NO_BITS: Final = 64 - PAGE_BITS
_PAGE_NO_MASK: Final = (1 << _PAGE_NO_BITS) - 1

PageUnderWay: TypeAlias = "Callable[[int, int], array[int] | None]"
"""Ledger and page number to the locations of a page whose place may be half written."""


def page_key(ledger_id: int, page_no: int) -> PageKey:
    """Return the key of a page.

    >>> split_key(page_key(7, 2))
    (7, 2)
    """
    return ledger_id << _PAGE_NO_BITS | page_no


def split_key(key: PageKey) -> tuple[int, int]:
    """Return ledger and page number."""
    return key >> _PAGE_NO_BITS, key & _PAGE_NO_MASK


class PageCache(WriteBackCache[PageKey, Page]):
    """Pages. Methods that read raise ``CorruptRecordError``: the page is damaged."""

    def __init__(
        self,
        reader: IndexReader,
        place_lock: Lock,
        page_under_way: PageUnderWay,
        *,
        growing_size_max: int,
        ageless_size: int,
    ) -> None:
        """``growing_size_max``: bytes of growing pages that stay whole after a flush."""
        super().__init__(lambda page: page.memory_size, ageless_size=ageless_size)
        self._growing_size_max = growing_size_max
        self._reader = reader
        self._place_lock = place_lock
        self._page_under_way = page_under_way
        self._new: dict[int, set[int]] = {}  # page numbers by ledger: in memory, and in no file yet
        self._run_counts: dict[int, int] = {}  # an upper bound of the runs among these, by ledger
        self._sorted: list[int] = []  # those of one ledger
        self._sorted_id: int | None = None

    def prepare(
        self, index: LedgerIndex, page_no: int, entry_id: int, *, is_admission: bool = False
    ) -> None:
        """Load a page from an entry's slot on, so that ``put`` cannot fail.

        Raises:
            ScatteredLedgerError: an add would make one run of pages too many.
        """
        slot = entry_id & SLOT_MASK
        page = self._find(index, page_no)
        if page is None:
            page = self._reader.read_page(index, page_no)
            if page is None:
                self._begin_page(index, page_no, entry_id, is_admission=is_admission)
                page = Page()
            elif entry_id > index.last_entry_id:
                page = Page(start=slot)  # the part before it is whole, and not needed now
            self.add(page_key(index.ledger_id, page_no), page, is_dirty=False)
        elif page.start > slot:
            self._read_ahead(index, page_no, page)
        index.tail, index.tail_no = page, page_no

    def _begin_page(
        self, index: LedgerIndex, page_no: int, entry_id: int, *, is_admission: bool
    ) -> None:
        """Record a page that is in no file yet; it shares the extent of the page before it."""
        new = self._new.setdefault(index.ledger_id, set())
        extents = index.extents
        if page_no - 1 not in new or extents.holds(page_no - 1):
            run_count = self._run_counts.get(index.ledger_id, 0)
            if is_admission and len(extents) + run_count >= ADMITTED_COUNT_MAX:
                # some of these may be in the file by now
                unplaced = {one for one in new if not extents.holds(one)}
                run_count = sum(one - 1 not in unplaced for one in unplaced)
                self._run_counts[index.ledger_id] = run_count
                if len(extents) + run_count >= ADMITTED_COUNT_MAX:
                    raise ScatteredLedgerError(index.ledger_id, entry_id, ADMITTED_COUNT_MAX)
            self._run_counts[index.ledger_id] = run_count + 1
        new.add(page_no)
        self._sorted_id = None

    def put(
        self, index: LedgerIndex, page_no: int, entry_ids: Sequence[int], locations: "array[int]"
    ) -> None:
        """Set locations in a prepared page."""
        page = self._find(index, page_no)
        assert page is not None, "prepare comes before put"
        if not page.is_dirty:
            self.make_dirty(page_key(index.ledger_id, page_no), page)
        if isinstance(entry_ids, range):
            by = page.put(entry_ids[0] & SLOT_MASK, locations)
        else:
            by = page.put_scattered(entry_ids, locations)
        self.size += by
        self.dirty_size += by

    def page(self, index: LedgerIndex, page_no: int, slot: int) -> Page | None:
        """Return a page, in memory from this slot on; ``None`` if it was never written."""
        page = self._find(index, page_no)
        if page is None:
            page = self._reader.read_page(index, page_no)
            if page is not None:
                self.miss_count += 1
                if page_no == index.last_entry_id >> PAGE_BITS:
                    page.cut((index.last_entry_id & SLOT_MASK) + 1)
                self.add(page_key(index.ledger_id, page_no), page, is_dirty=False)
            return page
        self.hit_count += 1
        self.use(page_key(index.ledger_id, page_no))
        if page.start > slot:
            self._read_ahead(index, page_no, page)
        return page

    def next_page(self, index: LedgerIndex, page_no: int) -> int | None:
        """Return the first page at ``page_no`` or after it that was written or is in memory."""
        if self._sorted_id != index.ledger_id:  # sorted once for consecutive calls
            self._sorted_id = index.ledger_id
            self._sorted = sorted(self._new.get(index.ledger_id, ()))
        at = bisect_left(self._sorted, page_no)
        candidates = self._sorted[at : at + 1]
        on_disk = index.extents.next_page(page_no)
        if on_disk is not None:
            candidates.append(on_disk)
        return min(candidates, default=None)

    def forget(self, ledger_id: int) -> None:
        """Forget a deleted ledger, whose pages were all dropped."""
        self._new.pop(ledger_id, None)
        self._sorted_id = None
        self._run_counts.pop(ledger_id, None)

    def drop_oldest_clean(self) -> PageKey | None:
        """Evict the clean page used longest ago; return its key, or ``None`` if none is clean."""
        key = super().drop_oldest_clean()
        if key is not None:
            self._is_new_no_more(key)
        return key

    def end_flush(self) -> dict[PageKey, Page]:
        """Record that all pages in flight are on disk; release parts that need not be in memory."""
        arrived = super().end_flush()
        growing_size = sum(page.memory_size for page in arrived.values() if not page.is_full)
        has_room = growing_size <= self._growing_size_max
        self.drop_count += 1  # pages that are not kept lose a part
        for key, page in arrived.items():
            before_size = page.memory_size
            page.end_flush(is_kept=has_room or (page.is_full and self.is_clean(key)))
            self.resize(page, page.memory_size - before_size)
            self._is_new_no_more(key)
        return arrived

    def _find(self, index: LedgerIndex, page_no: int) -> Page | None:
        """Return a page in memory; a page to change is nearly always the ledger's last one."""
        tail = index.tail
        if tail is not None and tail.is_kept and index.tail_no == page_no:
            return tail
        return self.peek(page_key(index.ledger_id, page_no))

    def _dropped(self, page: Page) -> None:
        super()._dropped(page)
        page.forget()  # its ledger may still refer to it

    def _is_new_no_more(self, key: PageKey) -> None:
        ledger_id, page_no = split_key(key)
        new = self._new.get(ledger_id)
        if new is not None:
            new.discard(page_no)
            self._sorted_id = None
            if not new:
                del self._new[ledger_id]
                self._run_counts.pop(ledger_id, None)

    def _read_ahead(self, index: LedgerIndex, page_no: int, page: Page) -> None:
        """Read the part of a page that is in the file only."""
        with self._place_lock:  # the page may be being written
            before = self._page_under_way(index.ledger_id, page_no)
            if before is None:
                on_disk = self._reader.read_page(index, page_no)
                assert on_disk is not None, "a flush brought it there"
                before = on_disk.locations
        before_size = page.memory_size
        page.put_ahead(before)
        self.resize(page, page.memory_size - before_size)
