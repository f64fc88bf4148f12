"""One page of a ledger's index: the locations of 1024 entries.

Format version 1 (the version is in the header of the file, ``zbk.storage.index.index_file``). All
integers little-endian.

    offset  size  field      type       meaning
    ------  ----  ---------  ---------  -----------------------------------------------------
         0  8192  locations  u64[1024]  of entries 1024 p .. 1024 p + 1023; 0: absent
                                        (``zbk.storage.entry_logs.location``)
      8192     8  page_no    u64        p
      8200     8  checksum   u64        xxh3_64 of the locations, seeded with ledger id and p

The page in slot s is at offset 1024 + 8208 s of the file; ``index.page_extents`` maps pages to
slots. Reserved slots, and those of pages that were never written, are holes.

Guarantees a reader may use: a page that fails its checksum is damaged; it does not show that an
entry is absent.

Source: BookKeeper's ``LedgerEntryPage``; the checksum is zbk's.
"""

import struct
from array import array
from collections.abc import Sequence
from typing import Final

from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.entry_batch import STORED_ENTRY_ID_MAX
from zbk.protocol.entry.rounds import scatter
from zbk.storage.disk.byte_order import locations_from_disk
from zbk.storage.index.write_back import Kept

PAGE_BITS: Final = 10
PAGE_ENTRY_COUNT: Final = 1 << PAGE_BITS
PAGE_LOCATIONS_SIZE: Final = 8 * PAGE_ENTRY_COUNT
INDEX_HEADER_SIZE: Final = 1024
_TRAILER = struct.Struct("<QQ")
PAGE_SIZE: Final = PAGE_LOCATIONS_SIZE + _TRAILER.size

assert INDEX_HEADER_SIZE + ((STORED_ENTRY_ID_MAX >> PAGE_BITS) + 1) * PAGE_SIZE < 16 << 40

PAGE_OVERHEAD_SIZE: Final = 512
"""Bytes of memory that a page takes in addition to its locations."""

_HOLE: Final = bytes(PAGE_SIZE)


class Page(Kept):
    """A page in memory, or the end of one: slots before ``start`` are in the file only.

    So the page that a ledger grows in takes only the memory of the locations added since the last
    flush, and not 8 KiB: there may be as many such pages as open ledgers. All slots after the
    locations are absent. A flush under way holds the same array, and reads the part that was there
    when it began. Later locations are appended; a change of that part goes into a copy.
    """

    __slots__ = ("_taken_count", "locations", "start")

    def __init__(self, locations: "array[int] | None" = None, start: int = 0) -> None:
        super().__init__()
        self.locations: array[int] = array("Q") if locations is None else locations
        self.start = start  # the slot of the first one
        self._taken_count = 0  # locations that the flush under way reads

    @property
    def memory_size(self) -> int:
        """Bytes of memory, with the overhead of Python and the cache."""
        return PAGE_OVERHEAD_SIZE + 8 * len(self.locations)

    def between(self, first: int, end: int) -> "array[int]":
        """Return the locations in the slots ``first .. end - 1``; all from ``start`` on."""
        assert first >= self.start, "this slot is in the file only"
        found = self.locations[first - self.start : end - self.start]
        if len(found) < end - first:
            found.frombytes(bytes(8 * (end - first - len(found))))
        return found

    def put(self, first: int, locations: "array[int]") -> int:
        """Set the slots from ``first`` on; return the growth of the page in bytes."""
        own, at = self.locations, first - self.start
        before = len(own)
        if at == before:  # nearly always
            own.extend(locations)
        else:
            own, at = self._writable(first)
            own[at : at + len(locations)] = locations
        return 8 * (len(own) - before)

    def put_scattered(self, entry_ids: Sequence[int], locations: "array[int]") -> int:
        """Set the slots of these ascending entries; return the growth of the page in bytes."""
        before, first = len(self.locations), entry_ids[0]
        own, at = self._writable(first % PAGE_ENTRY_COUNT)
        end = at + entry_ids[-1] - first + 1
        if end > len(own):
            own.frombytes(bytes(8 * (end - len(own))))
        scatter(own, entry_ids, first - at, locations)
        return 8 * (len(own) - before)

    def put_ahead(self, before: "array[int]") -> None:
        """Add the locations before ``start`` from the page in the file."""
        self.locations = before[: self.start] + self.locations
        self._taken_count = 0
        self.start = 0

    def cut(self, end: int) -> None:
        """Release the memory of the slots from ``end`` on, which are absent."""
        del self.locations[end - self.start :]

    def take(self) -> "array[int]":
        """Return the locations for a flush, which may read those that are there now."""
        self._taken_count = len(self.locations)
        return self.locations

    @property
    def is_full(self) -> bool:
        """True if it is in memory from its first slot to its last one."""
        return not self.start and len(self.locations) == PAGE_ENTRY_COUNT

    def end_flush(self, *, is_kept: bool) -> None:
        """Record that the flushed part is in the file; release it unless the page stays whole."""
        if self.start or not is_kept:
            self.start += self._taken_count
            self.locations = self.locations[self._taken_count :]
        self._taken_count = 0

    def forget(self) -> None:
        """Release all memory; a released page does not report entries as absent."""
        self.locations = array("Q")
        self.start = PAGE_ENTRY_COUNT

    def _writable(self, first: int) -> "tuple[array[int], int]":
        """Return locations that may be changed, up to ``first`` at least, and its place in them."""
        assert first >= self.start, "that is in the file only"
        at = first - self.start
        if at < self._taken_count:
            self.locations = self.locations[:]
            self._taken_count = at
        own = self.locations
        if at > len(own):
            own.frombytes(bytes(8 * (at - len(own))))
        return own, at


def page_offset(slot: int) -> int:
    """Return the offset in the file of the page in a slot."""
    return INDEX_HEADER_SIZE + slot * PAGE_SIZE


def page_no_in(data: bytes) -> int:
    """Return the page number in the bytes of a whole slot."""
    return int(_TRAILER.unpack_from(data, PAGE_LOCATIONS_SIZE)[0])


def page_checksum(locations: memoryview, ledger_id: int, page_no: int) -> int:
    """Return the checksum of a page's locations."""
    return checksum(locations, _seed(ledger_id, page_no))


def encode_trailer(page_no: int, page_checksum: int) -> bytes:
    """Return the trailer of a page."""
    return _TRAILER.pack(page_no, page_checksum)


def decode_page(
    data: bytes,
    ledger_id: int,
    page_no: int,
    where: str,
    *,
    slot: int,
    may_be_hole: bool = False,
) -> "array[int] | None":
    """Return the locations in a page; ``None`` for a hole, if it may be one.

    Raises:
        ShortRecordError: the file ends inside the page.
        CorruptRecordError: the page is damaged, or another page.
    """
    offset = page_offset(slot)
    if may_be_hole and data == _HOLE[: len(data)]:
        return None
    if len(data) != PAGE_SIZE:
        raise ShortRecordError(where, offset, f"the file ends inside of page {page_no}")
    view = memoryview(data)[:PAGE_LOCATIONS_SIZE]
    if _TRAILER.unpack_from(data, PAGE_LOCATIONS_SIZE) != (
        page_no,
        page_checksum(view, ledger_id, page_no),
    ):
        raise CorruptRecordError(where, offset, f"page {page_no} is damaged")
    return locations_from_disk(view)


def _seed(ledger_id: int, page_no: int) -> int:
    return checksum(struct.pack("<qQ", ledger_id, page_no))
