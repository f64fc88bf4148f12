"""One page of a ledger's index: the locations of 1024 entries.

Format version 1 (the version is in the header of the file, ``zbk.storage.index_file``). All
integers little-endian.

    offset  size  field      type       meaning
    ------  ----  ---------  ---------  -----------------------------------------------------
         0  8192  locations  u64[1024]  of entries 1024 p .. 1024 p + 1023; 0: absent
                                        (``zbk.storage.location``)
      8192     8  page_no    u64        p
      8200     8  checksum   u64        xxh3_64 of the locations, seeded with ledger id and p

Page p lies at offset 1024 + 8208 p of the file. Pages that were never written are holes.

Guarantees a reader may use: a page that fails its checksum is damaged; nothing may be concluded
from it, least of all that an entry is absent.

Source: BookKeeper's ``LedgerEntryPage``; the checksum is ours.
"""

import struct
from array import array
from typing import Final

from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.digest import checksum
from zbk.protocol.entry_batch import STORED_ENTRY_ID_MAX
from zbk.storage.byte_order import locations_from_disk, to_disk

PAGE_BITS: Final = 10
PAGE_ENTRY_COUNT: Final = 1 << PAGE_BITS
PAGE_LOCATIONS_SIZE: Final = 8 * PAGE_ENTRY_COUNT
INDEX_HEADER_SIZE: Final = 1024
_TRAILER = struct.Struct("<QQ")
PAGE_SIZE: Final = PAGE_LOCATIONS_SIZE + _TRAILER.size

assert INDEX_HEADER_SIZE + ((STORED_ENTRY_ID_MAX >> PAGE_BITS) + 1) * PAGE_SIZE < 16 << 40

_NO_LOCATIONS: Final = bytes(PAGE_LOCATIONS_SIZE)
_HOLE: Final = bytes(PAGE_SIZE)


class Page:
    """A page in memory. Whoever changes ``locations`` while they are shared copies them first."""

    __slots__ = ("is_shared", "locations")

    def __init__(self, locations: "array[int] | None" = None) -> None:
        self.locations: array[int] = array("Q", _NO_LOCATIONS) if locations is None else locations
        self.is_shared = False  # a flush under way holds the same array

    def writable_locations(self) -> "array[int]":
        """Return the locations, to be changed; a flush under way keeps what they were."""
        if self.is_shared:
            self.locations = self.locations[:]
            self.is_shared = False
        return self.locations


def page_offset(page_no: int) -> int:
    """Return where in its file a page lies."""
    return INDEX_HEADER_SIZE + page_no * PAGE_SIZE


def page_checksum(locations: memoryview, ledger_id: int, page_no: int) -> int:
    """Return the checksum of a page's locations."""
    return checksum(locations, _seed(ledger_id, page_no))


def encode_trailer(page_no: int, page_checksum: int) -> bytes:
    """Return what goes behind a page's locations."""
    return _TRAILER.pack(page_no, page_checksum)


def encode_page(locations: "array[int]", ledger_id: int, page_no: int) -> tuple[memoryview, bytes]:
    """Return a page's locations as they lie on disk, not copied, and its trailer."""
    view = to_disk(locations)
    return view, encode_trailer(page_no, page_checksum(view, ledger_id, page_no))


def decode_page(
    data: bytes, ledger_id: int, page_no: int, where: str, *, may_be_hole: bool = False
) -> "array[int] | None":
    """Return the locations in a page; ``None`` for a hole, where one may be.

    Raises:
        ShortRecordError: the file ends inside of the page.
        CorruptRecordError: the page is damaged, or another page.
    """
    offset = page_offset(page_no)
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
