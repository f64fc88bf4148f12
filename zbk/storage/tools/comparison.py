"""Compares a rebuilt index with the old one, page by page.

A location that only the old index has is kept: the bytes there are damaged or missing, and a read
of it must be an error, not "no such entry".
"""

from array import array
from typing import Final

from zbk.errors import CorruptRecordError
from zbk.storage.entry_logs.location import ABSENT
from zbk.storage.index.index_file import IndexPath, IndexReader, LedgerIndex
from zbk.storage.index.index_page import PAGE_BITS, PAGE_ENTRY_COUNT
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.storage.tools.rebuild_sources import KnownLedgers

_NO_LIMIT: Final = 1 << 62


class IndexComparison:
    """The comparison of one ledger directory. ``root`` is that of the old index."""

    def __init__(self, root: str, reader: IndexReader, known: KnownLedgers) -> None:
        self._root = root
        self._reader = reader
        self._known = known
        self.has_damaged_pages = False  # in the old index
        self.entry_count = 0  # in the new index
        self.added_count = 0  # the old index did not have them
        self.moved_count = 0  # it had them elsewhere
        self.kept_count = 0  # only it had them

    def compare(self, cache: LedgerCache, ledger_id: int) -> None:
        """Compare one ledger of the new index, and add to it what only the old one has.

        Raises:
            CorruptRecordError: an entry that the old index had is in neither.
        """
        old = self._known.header_of(ledger_id)
        old_count = 0
        if old is not None:
            for first, last, _ in old.extents:
                for page_no in range(first, last + 1):
                    old_count += self._compare_page(cache, old, page_no)
            self._check_last(old, cache.handle(ledger_id).last_entry_id)
        ranges, _ = cache.handle(ledger_id).present_ranges(
            0, range_count_max=_NO_LIMIT, entry_count_max=_NO_LIMIT
        )
        count = sum(last - first + 1 for first, last in ranges)
        self.entry_count += count
        self.added_count += count - old_count

    def _check_last(self, old: LedgerIndex, last_entry_id: int) -> None:
        if old.last_entry_id > last_entry_id:
            raise CorruptRecordError(
                IndexPath.of(self._root, old.ledger_id).path,
                0,
                f"ledger {old.ledger_id} had entries up to {old.last_entry_id}, and neither logs "
                f"nor index have one after {last_entry_id}: nothing was changed, because the "
                "bookie would deny them",
            )

    def _compare_page(self, cache: LedgerCache, old: LedgerIndex, page_no: int) -> int:
        """Compare a page, keep locations that only the old index has; return its entry count."""
        first = page_no << PAGE_BITS
        try:
            page = self._reader.read_page(old, page_no)
        except CorruptRecordError:
            self.has_damaged_pages = True
            return 0
        if page is None:
            return 0
        now = cache.handle(old.ledger_id).locations_of(range(first, first + PAGE_ENTRY_COUNT))
        if page.locations != now:
            kept_ids = array("q")
            kept: array[int] = array("Q")
            for slot, before in enumerate(page.locations):
                if before == ABSENT or before == now[slot]:
                    continue
                if now[slot] != ABSENT:
                    self.moved_count += 1
                    continue
                kept_ids.append(first + slot)
                kept.append(before)
            if kept_ids:
                self.kept_count += len(kept_ids)
                put(cache, old.ledger_id, kept_ids, kept)
        return PAGE_ENTRY_COUNT - page.locations.count(ABSENT)


def put(
    cache: LedgerCache, ledger_id: int, entry_ids: "array[int]", locations: "array[int]"
) -> None:
    """Set the locations of ascending entries of one ledger."""
    is_in_a_row = entry_ids[-1] - entry_ids[0] + 1 == len(entry_ids)
    ids = range(entry_ids[0], entry_ids[-1] + 1) if is_in_a_row else entry_ids
    cache.handle(ledger_id).set_locations(ids, locations)
