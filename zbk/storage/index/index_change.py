"""The changes that a flush makes in index files, and the parts of files that they become.

If memory has only the end of a page, the rest is read from the file and written again. If that part
is damaged, its locations become ``UNKNOWN``: these entries cannot be read here, which is neither
yes nor no; the entries whose locations memory had can be read.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from zbk.errors import CorruptRecordError
from zbk.storage.disk.byte_order import to_disk
from zbk.storage.entry_logs.location import UNKNOWN
from zbk.storage.index.flush_file import Part
from zbk.storage.index.index_file import DIRECTORY_PAGE, read_whole_page
from zbk.storage.index.index_page import INDEX_HEADER_SIZE, PAGE_ENTRY_COUNT, PAGE_LOCATIONS_SIZE
from zbk.system.event_log import EventLog
from zbk.system.files import File

LOG = EventLog(__name__)

_ABSENT_PAGE: Final = memoryview(bytes(PAGE_LOCATIONS_SIZE))
_UNKNOWN_PAGE: Final = array("Q", [UNKNOWN]) * PAGE_ENTRY_COUNT


class PageChange(msgspec.Struct, frozen=True):
    """The change of one page."""

    page_no: int
    slot: int  # of the file
    start: int  # the slot of the first location; the page before it is unchanged
    locations: "array[int]"
    count: int  # of these locations; later ones are for the next flush

    def data(self, before: "array[int] | None") -> memoryview:
        """Return the whole page as on disk; ``before`` is its old content."""
        whole = self.locations[: self.count]
        if self.start:
            assert before is not None, "only its end is in memory"
            whole = before[: self.start] + whole
        whole.frombytes(_ABSENT_PAGE[8 * len(whole) :])
        return to_disk(whole)


class LedgerChange(msgspec.Struct, frozen=True):
    """The change of one index file."""

    ledger_id: int
    is_new: bool  # there is no file yet
    header: bytes
    pages: Sequence[PageChange]
    directory: Sequence[tuple[int, bytes]] = ()  # slot and content of pages that hold extents

    @property
    def size(self) -> int:
        """Bytes that it takes in the flush file, roughly."""
        page_count = len(self.pages) + len(self.directory)
        return INDEX_HEADER_SIZE + PAGE_LOCATIONS_SIZE * page_count

    def parts(self, read: "ReadLocations | None" = None) -> Iterator[Part]:
        """Yield the parts to write: pages, then the header that has their extents.

        ``read`` returns the locations in a page of a ledger that has a file.
        """
        for page in self.pages:
            before = None if read is None or not page.start else read(self.ledger_id, page)
            yield Part.of_page(self.ledger_id, page.page_no, page.slot, page.data(before))
        for number, (slot, content) in enumerate(self.directory):
            page_no = DIRECTORY_PAGE + number
            yield Part.of_page(self.ledger_id, page_no, slot, memoryview(content))
        yield Part.of_header(self.ledger_id, self.header)


ReadLocations: TypeAlias = "Callable[[int, PageChange], array[int]]"
"""From a ledger and the change of a page to the page's locations in the file."""


def locations_reader(file: File) -> ReadLocations:
    """Return a reader of pages in an open index file; it logs damaged ones, which are unknown."""

    def read(ledger_id: int, page: PageChange) -> "array[int]":
        with suppress(CorruptRecordError):
            return read_whole_page(file, ledger_id, page.page_no, page.slot)
        try:  # a second look, because the damaged page will be overwritten
            return read_whole_page(file, ledger_id, page.page_no, page.slot)
        except CorruptRecordError as error:
            LOG.error(
                "index.entries_lost",
                "entries of ledger %(ledger_id)d cannot be found any more: %(error)s",
                ledger_id=ledger_id,
                error=error,
            )
            return _UNKNOWN_PAGE

    return read
