"""The index of one ledger, as the object that works with the ledger holds it.

A handle keeps the ledger's header between calls, so that a ledger in use needs no look-up: with
thousands of ledgers each look-up misses the processor's caches. The cache may evict the header at
any time; the handle then finds it again.

Owned by the thread that owns the index.
"""

from array import array
from collections.abc import Sequence
from typing import Final, Protocol

from zbk.protocol.entry.entry_batch import STORED_ENTRY_ID_MAX
from zbk.protocol.entry.rounds import gather, rounds_of
from zbk.storage.index.index_file import LedgerIndex
from zbk.storage.index.index_page import PAGE_BITS, PAGE_ENTRY_COUNT, Page
from zbk.storage.index.page_cache import PageCache
from zbk.storage.index.page_slots import (
    SLOT_MASK,
    find_absent,
    find_present,
    page_runs,
)
from zbk.storage.index.write_back import WriteBackCache

_NO_PAGE: Final = Page()


class IndexMemory(Protocol):
    """The part of the ledger cache that handles use."""

    pages: PageCache
    headers: WriteBackCache[int, LedgerIndex]

    def existing(self, ledger_id: int) -> LedgerIndex:
        """Return a ledger's header, from memory or its file."""
        ...

    def check(self) -> None:
        """Return only if nothing has failed."""
        ...

    def make_room(self) -> None:
        """Evict pages and headers until the limits hold."""
        ...


class IndexHandle:
    """The index of one ledger. Made by ``LedgerCache.handle``, also for one that does not exist.

    Raises:
        NoSuchLedgerError: from every method: the bookie does not have the ledger.
        CorruptRecordError: from every method: the index is damaged or cannot be read.
        StorageFailedError: from every method: room had to be made, and writing failed, or anything
            failed before.
    """

    __slots__ = ("_header", "_memory", "ledger_id")

    def __init__(self, memory: IndexMemory, ledger_id: int) -> None:
        self._memory = memory
        self._header: LedgerIndex | None = None
        self.ledger_id = ledger_id

    # ------------------------------------------------------------------ the header

    @property
    def last_entry_id(self) -> int:
        """The highest id in the index; -1 is none."""
        return self._used().last_entry_id

    def set_fenced(self) -> None:
        """Record that the ledger is fenced, forever. The caller journals a ``FenceRecord``."""
        self._changing().is_fenced = True
        self._memory.make_room()

    def set_explicit_lac(self, lac: int) -> None:
        """Record a LAC, unless a higher one is known. The caller journals an ``ExplicitLacRecord``.

        A lower LAC changes nothing.
        """
        header = self._changing()
        header.explicit_lac = max(header.explicit_lac, lac)
        self._memory.make_room()

    def set_last_add_synced(self, last_add_synced: int) -> None:
        """Record the place of a sync cursor, so that a restart begins there. Not journaled.

        All entries up to it are on stable storage already, or confirmed by the ensemble. A lower
        place changes nothing.
        """
        header = self._changing()
        header.last_add_synced = max(header.last_add_synced, last_add_synced)
        self._memory.make_room()

    # ------------------------------------------------------------------ changing locations

    def prepare(self, entry_ids: Sequence[int], *, is_admission: bool = False) -> None:
        """Load all pages that ``put`` will change, so that it cannot fail half-way.

        They stay until room is made or a ledger is deleted, which changes
        ``LedgerCache.drop_count``. ``is_admission``: the entries may still be refused.

        Raises:
            ScatteredLedgerError: the entries may be refused, and make one run of pages too many.
        """
        header = self._header
        if header is None or not header.is_kept:
            known = self._memory.headers.peek(self.ledger_id)
            header = self._header = known or self._memory.existing(self.ledger_id)
        assert entry_ids[-1] <= STORED_ENTRY_ID_MAX, "the index has no room for such ids"
        for page_no, low, _ in page_runs(entry_ids):
            self._memory.pages.prepare(header, page_no, entry_ids[low], is_admission=is_admission)

    def put(self, entry_ids: Sequence[int], locations: "array[int]") -> None:
        """Set the locations of ascending entries after ``prepare``; the caller then makes room."""
        memory, header = self._memory, self._header
        assert header is not None, "prepare comes before put"
        memory.check()
        if not header.is_dirty:
            memory.headers.make_dirty(self.ledger_id, header)
        first_no, last = entry_ids[0] >> PAGE_BITS, entry_ids[-1]
        if first_no == last >> PAGE_BITS:  # nearly always: without a copy
            memory.pages.put(header, first_no, entry_ids, locations)
        else:
            for page_no, low, high in page_runs(entry_ids):
                memory.pages.put(header, page_no, entry_ids[low:high], locations[low:high])
        header.last_entry_id = max(header.last_entry_id, last)

    def set_locations(self, entry_ids: Sequence[int], locations: "array[int]") -> None:
        """Set the locations of ascending entries, and make room."""
        self.prepare(entry_ids)
        self.put(entry_ids, locations)
        self._memory.make_room()

    # ------------------------------------------------------------------ reading locations

    def locations_of(self, entry_ids: Sequence[int]) -> "array[int]":
        """Return the locations of ascending entries; ``ABSENT`` for an absent entry.

        The caller limits the span of ids, whose pages are loaded into memory.
        """
        header = self._used()
        if isinstance(entry_ids, range):
            return self._row(header, entry_ids[0], entry_ids[-1])
        found: array[int] = array("Q")
        for page_no, low, high in page_runs(entry_ids):
            ids = entry_ids[low:high]
            first = ids[0] & SLOT_MASK
            page = self._memory.pages.page(header, page_no, first) or _NO_PAGE
            some = page.between(first, first + ids[-1] - ids[0] + 1)
            found += gather(some, ids, ids[0], rounds_of(ids))
            self._memory.make_room()
        return found

    def _row(self, header: LedgerIndex, first: int, last: int) -> "array[int]":
        found: array[int] = array("Q")
        page_no, start = first >> PAGE_BITS, first & SLOT_MASK
        while (missing := last - first + 1 - len(found)) > 0:
            end = min(start + missing, PAGE_ENTRY_COUNT)
            page = self._memory.pages.page(header, page_no, start)
            found += (page or _NO_PAGE).between(start, end)
            page_no, start = page_no + 1, 0
            self._memory.make_room()
        return found

    def contiguous_until(self, from_id: int) -> int:
        """Return the last id of the run of entries that starts after ``from_id``; or ``from_id``.

        It reads as many pages as the run is long.
        """
        header = self._used()
        entry_id = from_id + 1
        while entry_id <= header.last_entry_id:
            slot = entry_id & SLOT_MASK
            page = self._memory.pages.page(header, entry_id >> PAGE_BITS, slot)
            if page is None:
                break
            absent = find_absent(page.between(slot, PAGE_ENTRY_COUNT))
            self._memory.make_room()
            if absent is not None:
                return entry_id + absent - 1
            entry_id += PAGE_ENTRY_COUNT - slot
        return entry_id - 1

    def next_entry_id(self, from_id: int) -> int | None:
        """Return the first present id at or after ``from_id``, or ``None``.

        It skips pages that were never written, whatever their number.
        """
        header = self._used()
        entry_id = from_id
        while entry_id <= header.last_entry_id:
            slot = entry_id & SLOT_MASK
            page = self._memory.pages.page(header, entry_id >> PAGE_BITS, slot)
            if page is not None:
                present = find_present(page.between(slot, PAGE_ENTRY_COUNT))
                self._memory.make_room()
                if present is not None:
                    return entry_id + present
            page_no = self._memory.pages.next_page(header, (entry_id >> PAGE_BITS) + 1)
            if page_no is None:
                return None
            entry_id = page_no << PAGE_BITS
        return None

    def present_ranges(
        self, first_entry_id: int, *, range_count_max: int, entry_count_max: int
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Return first and last ids of the runs from ``first_entry_id`` on, ascending.

        Second: the id to continue from if a limit was reached, else ``None``. A limit may cut a run
        in two.
        """
        ranges: list[tuple[int, int]] = []
        held_count = 0
        first = self.next_entry_id(first_entry_id)
        while first is not None:
            if len(ranges) >= range_count_max or held_count >= entry_count_max:
                return ranges, first
            last = self.contiguous_until(first - 1)
            ranges.append((first, last))
            held_count += last - first + 1
            first = self.next_entry_id(last + 1)
        return ranges, None

    # ------------------------------------------------------------------ private

    def _used(self) -> LedgerIndex:
        header = self._header
        if header is None or not header.is_kept:
            header = self._header = self._memory.existing(self.ledger_id)
        else:
            self._memory.headers.use(self.ledger_id)
        return header

    def _changing(self) -> LedgerIndex:
        self._memory.check()
        header = self._used()
        self._memory.headers.make_dirty(self.ledger_id, header)
        return header
