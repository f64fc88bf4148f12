"""Inspects one index file: the state of its ledger, its entries, and its damage.

Without a whole header the written pages are not known: every slot that is not zeros is read as the
page whose number it has. A flush that is under way, or that a crash interrupted, changes the file
in place: a half-written part is a fault here, and the next start of the bookie repairs it from the
flush file.
"""

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.storage.entry_logs.location import ABSENT, split_location
from zbk.storage.index.index_file import (
    DIRECTORY_PAGE,
    LedgerIndex,
    decode_header,
    read_directory,
)
from zbk.storage.index.index_page import (
    INDEX_HEADER_SIZE,
    PAGE_ENTRY_COUNT,
    PAGE_SIZE,
    decode_page,
    page_no_in,
    page_offset,
)
from zbk.storage.tools.inspection import Fault, Inspection, id_in_name
from zbk.system.files import File, FileSystem

_NAME_DIGIT_COUNT: Final = 16
_LEDGER_ID = struct.Struct("<8xq")


class FoundRange(msgspec.Struct):
    """Entries in a row, and the logs that hold them."""

    first_entry_id: int
    last_entry_id: int
    log_ids: list[int]  # in the order of the entries, no two neighbours the same


class IndexInspection(Inspection[FoundRange]):
    """One index file: the faults of the header first, then ranges and faults by page."""

    def __init__(self, files: FileSystem, path: str) -> None:
        super().__init__(files, path)
        self.ledger_id: int | None = id_in_name(path, _NAME_DIGIT_COUNT)
        self.header: LedgerIndex | None = None
        self.page_count = 0
        self.entry_count = 0
        self._range: FoundRange | None = None
        self._last_entry_id = NO_ENTRY

    def _read(self, file: File) -> Iterator[FoundRange | Fault]:
        yield from self._header(file)
        if self.ledger_id is None:
            yield Fault(0, file.size(), "neither header nor name has the id of its ledger")
            return
        yield from self._pages(file, self.ledger_id)
        yield from self._missing(file)

    def _end(self) -> Iterator[FoundRange | Fault]:
        if self._range is not None:
            yield self._range
        if self.header is not None and self.header.last_entry_id > self._last_entry_id:
            told = f"the header has {self.header.last_entry_id} as the last entry"
            yield Fault(0, 0, f"{told}, and the pages end at {self._last_entry_id}")

    def _header(self, file: File) -> Iterator[Fault]:
        head = file.pread(INDEX_HEADER_SIZE, 0)
        named = self.ledger_id
        stored = _LEDGER_ID.unpack_from(head)[0] if len(head) >= _LEDGER_ID.size else -1
        try:
            self.header = decode_header(head, stored, self._path)
        except CorruptRecordError as error:
            yield Fault(0, min(len(head), INDEX_HEADER_SIZE), error.reason)
            return
        if named is not None and named != stored:
            yield Fault(0, 0, f"the header is of ledger {stored}, the name of ledger {named}")
        self.ledger_id = stored
        try:
            read_directory(file, self.header)
        except CorruptRecordError as error:
            self.header = None
            yield Fault(error.offset, PAGE_SIZE, error.reason)

    def _pages(self, file: File, ledger_id: int) -> Iterator[FoundRange | Fault]:
        for page_no, slot, may_be_hole in self._written(file):
            self._offset = page_offset(slot)
            data = file.pread(PAGE_SIZE, page_offset(slot))
            try:
                locations = decode_page(
                    data, ledger_id, page_no, self._path, slot=slot, may_be_hole=may_be_hole
                )
            except CorruptRecordError as error:
                yield Fault(page_offset(slot), len(data), error.reason)
                continue
            if locations is not None:
                self.page_count += 1
                yield from self._ranges(page_no, locations.tolist())

    def _written(self, file: File) -> Iterator[tuple[int, int, bool]]:
        """Yield number and slot of pages that may be written, and whether it may be a hole."""
        count = _slot_count(file)
        if self.header is None:
            yield from self._named(file, count)
            return
        for one in self.header.extents.placed:
            for slot in range(one.slot, min(one.slot_end, count)):
                yield one.first + slot - one.slot, slot, one.is_sparse

    def _named(self, file: File, count: int) -> Iterator[tuple[int, int, bool]]:
        """Yield the pages in all slots, in the order of the numbers in them."""
        found = []
        for slot in range(count):
            data = file.pread(PAGE_SIZE, page_offset(slot))
            is_named = len(data) == PAGE_SIZE and any(data)
            page_no = page_no_in(data) if is_named else slot
            if page_no < DIRECTORY_PAGE:
                found.append((page_no, slot, True))
        yield from sorted(found)

    def _missing(self, file: File) -> Iterator[Fault]:
        """Yield the runs of pages in the header that lie after the end of the file."""
        count = _slot_count(file)
        for one in self.header.extents.placed if self.header is not None else ():
            if one.slot_end > count and not one.is_sparse:
                slot = max(one.slot, count)
                low = one.first + slot - one.slot
                size = (one.last - low + 1) * PAGE_SIZE
                told = f"the file ends before pages {low} to {one.last}"
                yield Fault(page_offset(slot), size, told)

    def _ranges(self, page_no: int, locations: list[int]) -> Iterator[FoundRange]:
        first = page_no * PAGE_ENTRY_COUNT
        for entry_id, location in enumerate(locations, first):
            if location == ABSENT:
                continue
            self.entry_count += 1
            self._last_entry_id = entry_id
            log_id, _ = split_location(location)
            found = self._range
            if found is not None and found.last_entry_id == entry_id - 1:
                found.last_entry_id = entry_id
                if found.log_ids[-1] != log_id:
                    found.log_ids.append(log_id)
                continue
            if found is not None:
                yield found
            self._range = FoundRange(entry_id, entry_id, [log_id])


def _slot_count(file: File) -> int:
    """Return the number of slots in the file; the last one may be cut off."""
    return -(-max(0, file.size() - INDEX_HEADER_SIZE) // PAGE_SIZE)
