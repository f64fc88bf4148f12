"""The flush file: the changes that a flush makes in index files, whole or not at all.

Format version 2. All integers little-endian.

    offset  size  field           type  meaning
    ------  ----  --------------  ----  -------------------------------------------------------
         0     4  magic           u32   "zbkF"
         4     2  version         u16   2
         6     2  reserved        u16   0
         8     8  count           u64   c; number of parts
        16     8  table_checksum  u64   xxh3_64 of the table
        24     8  checksum        u64   xxh3_64 of bytes 0 .. 24
        32  32 c  table           ...   per part: ledger id i64, page i64 (-1: the header), slot
                                        i64 (of a header 0), checksum u64 (of a page: the one in
                                        its trailer)
 32 + 32 c     .  parts           u8[]  1024 bytes of a header, 8192 of a page's locations

In version 1 a row of the table has 24 bytes: no slot, as each page lies in that of its number.

Recovery rule: if a checksum in the file fails, it was being written when the bookie died; nothing
was changed in place, and the file is not used. A whole file is applied, also a second time.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, TypeAlias

import msgspec

from zbk.errors import OutOfDescriptorsError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.write_again import write_again
from zbk.storage.index.index_page import (
    INDEX_HEADER_SIZE,
    PAGE_LOCATIONS_SIZE,
    encode_trailer,
    page_checksum,
    page_offset,
)
from zbk.system.files import Buffer, File, FileSystem

HEADER_PAGE: Final = -1
"""The page number that means "the header"."""

_MAGIC_1: Final = b"zbkF\x01\x00"
_MAGIC: Final = b"zbkF\x02\x00"
_HEADER = struct.Struct("<6sHQQ")
_CHECKSUM = struct.Struct("<Q")
_ROW_1 = struct.Struct("<qqQ")
_ROW = struct.Struct("<qqqQ")
_HEADER_SIZE: Final = _HEADER.size + _CHECKSUM.size
_GATHER_COUNT: Final = 256  # parts in one write

assert _HEADER_SIZE == 32


class Part(msgspec.Struct, frozen=True):
    """A header or a page as it is written to an index file."""

    ledger_id: int
    page_no: int  # or ``HEADER_PAGE``
    slot: int
    data: Buffer
    checksum: int

    @classmethod
    def of_header(cls, ledger_id: int, header: bytes) -> "Part":
        """Return the part that replaces a ledger's header."""
        return cls(ledger_id, HEADER_PAGE, 0, header, checksum(header))

    @classmethod
    def of_page(cls, ledger_id: int, page_no: int, slot: int, locations: memoryview) -> "Part":
        """Return the part that replaces a page."""
        own_checksum = page_checksum(locations, ledger_id, page_no)
        return cls(ledger_id, page_no, slot, locations, own_checksum)

    def write_to(self, file: File) -> None:
        """Write the part into its place in the ledger's index file."""
        if self.page_no == HEADER_PAGE:
            file.pwrite([self.data], 0)
        else:
            trailer = encode_trailer(self.page_no, self.checksum)
            file.pwrite([self.data, trailer], page_offset(self.slot))


class FlushFile:
    """The one flush file of a ledger directory. Errors are ``OSError``."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.path = f"{directory}/index.flush"

    def write(self, parts: Sequence[Part]) -> None:
        """Write the parts into the file, durably."""
        rows = ((part.ledger_id, part.page_no, part.slot, part.checksum) for part in parts)
        table = b"".join(_ROW.pack(*row) for row in rows)
        fields = _HEADER.pack(_MAGIC, 0, len(parts), checksum(table))
        head = fields + _CHECKSUM.pack(checksum(fields)) + table
        with closing(self._open()) as file:
            offset = file.pwrite([head], 0)
            for start in range(0, len(parts), _GATHER_COUNT):
                some = [part.data for part in parts[start : start + _GATHER_COUNT]]
                offset += file.pwrite(some, offset)
            file.sync()

    def make_durable(self) -> None:
        """Put on stable storage what the page cache has of the file.

        Its name is there already: ``write`` sees to that before it writes anything.
        """
        with closing(self._files.open(self.path)) as file:
            write_again(file, 0, file.size())
            file.sync()

    def retire(self) -> None:
        """Make the content of the file void, durably."""
        with closing(self._open()) as file:
            file.pwrite([bytes(_HEADER_SIZE)], 0)
            file.sync()

    def read(self) -> list[tuple[int, Iterator[Part]]]:
        """Return the parts by ledger, in order; nothing if the file is not whole.

        All checksums are verified before this returns; the parts are read again one by one.
        """
        if not self._files.exists(self.path):
            return []
        with closing(self._files.open(self.path, write=False)) as file:
            rows = self._rows(file)
            if any(self._part(file, *row) is None for row in rows):
                return []
        by_ledger: dict[int, list[_Row]] = {}
        for row in rows:
            by_ledger.setdefault(row[0], []).append(row)
        return [(ledger_id, self._parts(own)) for ledger_id, own in by_ledger.items()]

    def _open(self) -> File:
        if self._files.exists(self.path):
            return self._files.open(self.path)
        file = self._files.open(self.path, create=True)
        try:
            self._files.sync_dir(self._directory)
        except OutOfDescriptorsError:
            file.close()
            self._files.remove(self.path)  # an existing file counts as durable
            raise
        return file

    def _parts(self, rows: "list[_Row]") -> Iterator[Part]:
        with closing(self._files.open(self.path, write=False)) as file:
            for row in rows:
                part = self._part(file, *row)
                assert part is not None, "it was whole a moment ago"
                yield part

    def _rows(self, file: File) -> "list[_Row]":
        """Return the rows of the table, with the offsets of the parts; nothing if it is torn."""
        head = file.pread(_HEADER_SIZE, 0)
        if len(head) < _HEADER_SIZE:
            return []
        magic, _, count, table_checksum = _HEADER.unpack_from(head, 0)
        (stored,) = _CHECKSUM.unpack_from(head, _HEADER.size)
        if magic not in {_MAGIC, _MAGIC_1} or checksum(head[: _HEADER.size]) != stored:
            return []
        row_size = _ROW.size if magic == _MAGIC else _ROW_1.size
        table = file.pread(count * row_size, _HEADER_SIZE)
        if len(table) < count * row_size or checksum(table) != table_checksum:
            return []
        rows: list[_Row] = []
        offset = _HEADER_SIZE + len(table)
        for ledger_id, page_no, slot, own_checksum in _unpacked(table, magic):
            rows.append((ledger_id, page_no, slot, own_checksum, offset))
            offset += _size_of(page_no)
        return rows

    def _part(
        self,
        file: File,
        ledger_id: int,
        page_no: int,
        slot: int,
        own_checksum: int,
        offset: int,
    ) -> Part | None:
        data = file.pread(_size_of(page_no), offset)
        if page_no == HEADER_PAGE:
            part = Part.of_header(ledger_id, data)
        else:
            part = Part.of_page(ledger_id, page_no, slot, memoryview(data))
        return part if part.checksum == own_checksum else None


_Row: TypeAlias = tuple[int, int, int, int, int]
"""Ledger id, page, slot, checksum, and the offset of the part."""


def _unpacked(table: bytes, magic: bytes) -> Iterator[tuple[int, int, int, int]]:
    if magic == _MAGIC:
        yield from _ROW.iter_unpack(table)
        return
    for ledger_id, page_no, own_checksum in _ROW_1.iter_unpack(table):
        yield ledger_id, page_no, max(0, page_no), own_checksum


def _size_of(page_no: int) -> int:
    return INDEX_HEADER_SIZE if page_no == HEADER_PAGE else PAGE_LOCATIONS_SIZE
