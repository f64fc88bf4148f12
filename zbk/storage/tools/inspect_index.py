"""Looks at one index file: what it says of its ledger, which entries it has, where it is damaged.

Without a whole header nothing says which pages were written: every slot that is not zeros is read
then, as the page that it says it is. A flush that is under way, or that a crash cut short, changes
the file in place: what it left half done is a fault here, and the next start of the bookie sets it
right from the flush file.
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
from zbk.storage.tools.inspection import Fault, Verdict, id_in_name
from zbk.system.files import File, FileSystem

_NAME_DIGIT_COUNT: Final = 16
_LEDGER_ID = struct.Struct("<8xq")


class FoundRange(msgspec.Struct):
    """Entries in a row, and the logs that they lie in."""

    first_entry_id: int
    last_entry_id: int
    log_ids: list[int]  # in the order of the entries, no two neighbours the same


class IndexInspection:
    """One index file.

    ``findings`` comes first, once, and to its end; then the attributes say what it amounts to.
    """

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path
        self.ledger_id: int | None = id_in_name(path, _NAME_DIGIT_COUNT)
        self.header: LedgerIndex | None = None
        self.page_count = 0
        self.entry_count = 0
        self.fault_count = 0
        self._range: FoundRange | None = None
        self._last_entry_id = NO_ENTRY

    @property
    def verdict(self) -> Verdict:
        """What the findings amount to."""
        return Verdict.DAMAGED if self.fault_count else Verdict.CLEAN

    def findings(self) -> Iterator[FoundRange | Fault]:
        """Yield ranges of entries and faults in the order of the pages; of the header, first."""
        for finding in self._read():
            self.fault_count += isinstance(finding, Fault)
            yield finding

    def _read(self) -> Iterator[FoundRange | Fault]:
        try:
            file = self._files.open(self._path, write=False)
        except OSError as error:
            yield Fault(0, 0, f"cannot be opened: {error.strerror}")
            return
        try:
            yield from self._header(file)
            if self.ledger_id is None:
                yield Fault(0, file.size(), "neither header nor name say which ledger it is")
                return
            yield from self._pages(file, self.ledger_id)
            yield from self._missing(file)
        except OSError as error:
            yield Fault(page_offset(self.page_count), 0, f"cannot be read: {error.strerror}")
        finally:
            file.close()
        if self._range is not None:
            yield self._range
        if self.header is not None and self.header.last_entry_id > self._last_entry_id:
            told = f"the header says that the last entry is {self.header.last_entry_id}"
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
        """Yield number and slot of pages that may have been written, and whether zeros are none."""
        count = _slot_count(file)
        if self.header is None:
            yield from self._named(file, count)
            return
        for one in self.header.extents.placed:
            for slot in range(one.slot, min(one.slot_end, count)):
                yield one.first + slot - one.slot, slot, one.is_sparse

    def _named(self, file: File, count: int) -> Iterator[tuple[int, int, bool]]:
        """Yield the pages as they say themselves which ones they are, by their numbers."""
        found = []
        for slot in range(count):
            data = file.pread(PAGE_SIZE, page_offset(slot))
            is_named = len(data) == PAGE_SIZE and any(data)
            page_no = page_no_in(data) if is_named else slot
            if page_no < DIRECTORY_PAGE:
                found.append((page_no, slot, True))
        yield from sorted(found)

    def _missing(self, file: File) -> Iterator[Fault]:
        """Yield the runs of pages that the header knows and that the file is too short for."""
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
    """Return how many slots the file has, the last one cut off perhaps."""
    return -(-max(0, file.size() - INDEX_HEADER_SIZE) // PAGE_SIZE)
