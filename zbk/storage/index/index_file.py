"""The index file of one ledger: its header, its name, and reading it.

Format of the header. All integers little-endian. Version 1, of files in which each page lies in the
slot of its number:

    offset  size  field            type   meaning
    ------  ----  ---------------  -----  ------------------------------------------------------
         0     4  magic            u32    "zbkX"
         4     2  version          u16    1
         6     1  flags            u8     bit 0: fenced
         7     1  ledger_type      u8     1 PD_JOURNAL, 2 VD_JOURNAL, 3 VD_BYPASS_JOURNAL
         8     8  ledger_id        i64    >= 0; the name of the file says the same
        16    16  ledger_key       u8[]   what clients have to show
        32     8  explicit_lac     i64    -1 is none
        40     8  last_add_synced  i64    a floor for the sync cursor; -1 is none
        48     8  last_entry_id    i64    highest id with a location; -1 is none
        56     4  extent_count     u32    e, at most 56
        60     4  reserved         u32    0
        64  16 e  extents          ...    runs of pages that were written: first page i64, count
                                          u32, flags u32 (bit 0: sparse), ascending
   64 + 16 e   .  zeros
      1016     8  checksum         u64    xxh3_64 of bytes 0 .. 1016
      1024        pages (``zbk.storage.index.index_page``)

Version 2, of all others:

    offset  size  field            type   meaning
    ------  ----  ---------------  -----  ------------------------------------------------------
         0    56                          as in version 1, but for the version
        56     4  extent_count     u32    e, at most 4092
        60     4  slot_count       u32    slots of the file that are taken or reserved
        64     4  directory_count  u32    d, at most 6; 0: the extents are here
        68     4  reserved         u32    0
        72     .  extents          ...    d is 0: e extents, at most 78, as below; else the slots
                                          (u32) of d *directory pages*, which hold them, 682 each
      1016     8  checksum         u64    xxh3_64 of bytes 0 .. 1016

    each extent: first page u32; count u32, and bit 31 of it: sparse; slot of the first page u32;
    ascending by pages

A directory page lies in the file like a page of locations, with the page number 2^40 + its own.

A new file gets its name only when it is whole and synced; later changes go through the flush file
(``index.index_flush``), so that no crash leaves a header or a page half written. Whatever
fails its checksum here is damage.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Source: BookKeeper's ``FileInfo`` and ``IndexPersistenceMgr``. Decision: directories go by bits 16
to 23 and 8 to 15 of the ledger id, not by its lowest bits, so that ledgers made one after the other
share a directory, and an fsync of it.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import Final, Self

import msgspec

from zbk.errors import CorruptRecordError, ShortRecordError
from zbk.protocol.entry.digest import LEDGER_KEY_SIZE, checksum
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.disk.byte_order import to_disk
from zbk.storage.disk.fail_stop import as_damage
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.index.index_page import (
    INDEX_HEADER_SIZE,
    PAGE_LOCATIONS_SIZE,
    PAGE_SIZE,
    Page,
    decode_page,
    page_offset,
)
from zbk.storage.index.ledger_info import CODE_OF_LEDGER_TYPE, LEDGER_TYPE_OF_CODE, LedgerInfo
from zbk.storage.index.page_extents import EXTENT_COUNT_MAX, Extent, PageExtents
from zbk.storage.index.write_back import Kept
from zbk.system.files import File, FileSystem

NEW_SUFFIX: Final = ".new"
"""What the name of a file ends in while it is made."""

DIRECTORY_PAGE: Final = 1 << 40
"""The page number of the first directory page; no page of locations has it."""

_MAGIC: Final = b"zbkX\x01\x00"
_MAGIC_2: Final = b"zbkX\x02\x00"
_FIELDS = struct.Struct(f"<6sBBq{LEDGER_KEY_SIZE}sqqqII")
_EXTENT = struct.Struct("<qII")
_CHECKSUM = struct.Struct("<Q")
_SUFFIX: Final = ".idx"
_FENCED: Final = 1
_SPARSE: Final = 1
_EXTENT_COUNT_1_MAX: Final = 56
_DIRECTORY = struct.Struct("<II")
_EXTENT_2 = struct.Struct("<III")
_SLOT = struct.Struct("<I")
_SPARSE_2: Final = 1 << 31
_HEAD_END: Final = INDEX_HEADER_SIZE - _CHECKSUM.size
_EXTENTS_2_AT: Final = _FIELDS.size + _DIRECTORY.size
_EXTENT_COUNT_HERE: Final = (_HEAD_END - _EXTENTS_2_AT) // _EXTENT_2.size
_EXTENT_COUNT_OF_PAGE: Final = PAGE_LOCATIONS_SIZE // _EXTENT_2.size
_DIRECTORY_COUNT_MAX: Final = EXTENT_COUNT_MAX // _EXTENT_COUNT_OF_PAGE

assert _FIELDS.size == 64
assert _FIELDS.size + _EXTENT_COUNT_1_MAX * _EXTENT.size + _CHECKSUM.size <= INDEX_HEADER_SIZE
assert (_EXTENT_COUNT_HERE, _EXTENT_COUNT_OF_PAGE, _DIRECTORY_COUNT_MAX) == (78, 682, 6)


class LedgerIndex(Kept):
    """What is known of one ledger: its header in memory. Changed by the owner only."""

    __slots__ = (
        "directory_extent_count",
        "explicit_lac",
        "extents",
        "has_file",
        "is_fenced",
        "last_add_synced",
        "last_entry_id",
        "ledger_id",
        "ledger_key",
        "ledger_type",
        "tail",
        "tail_no",
    )

    def __init__(self, ledger_id: int, ledger_key: bytes, ledger_type: LedgerType) -> None:
        super().__init__()
        assert len(ledger_key) == LEDGER_KEY_SIZE, "keys have a fixed size"
        self.ledger_id = ledger_id
        self.ledger_key = ledger_key
        self.ledger_type = ledger_type
        self.is_fenced = False
        self.explicit_lac = NO_ENTRY
        self.last_add_synced = NO_ENTRY
        self.last_entry_id = NO_ENTRY
        self.extents = PageExtents()  # of the pages that flushes have written, or have begun to
        self.directory_extent_count = 0  # of these, in directory pages that were not read yet
        self.has_file = False
        self.tail: Page | None = None  # the page that was added to last, while it is kept
        self.tail_no = 0

    def info(self) -> LedgerInfo:
        """Return it as a value."""
        return LedgerInfo(
            self.ledger_id,
            self.ledger_key,
            self.ledger_type,
            self.is_fenced,
            self.explicit_lac,
            self.last_add_synced,
            self.last_entry_id,
        )


def encode_header(index: LedgerIndex) -> bytes:
    """Return the header's bytes."""
    extents = index.extents
    is_first = extents.is_in_order and len(extents) <= _EXTENT_COUNT_1_MAX
    fields = _FIELDS.pack(
        _MAGIC if is_first else _MAGIC_2,
        _FENCED if index.is_fenced else 0,
        CODE_OF_LEDGER_TYPE[index.ledger_type],
        index.ledger_id,
        index.ledger_key,
        index.explicit_lac,
        index.last_add_synced,
        index.last_entry_id,
        len(extents),
        0 if is_first else extents.slot_count,
    )
    if is_first:
        packed = b"".join(
            _EXTENT.pack(first, last - first + 1, _SPARSE if is_sparse else 0)
            for first, last, is_sparse in extents
        )
    elif extents.directory_slots:
        packed = _DIRECTORY.pack(len(extents.directory_slots), 0)
        packed += b"".join(map(_SLOT.pack, extents.directory_slots))
    else:
        packed = _DIRECTORY.pack(0, 0) + _packed(extents.placed)
    head = (fields + packed).ljust(_HEAD_END, b"\0")
    assert len(head) == _HEAD_END, "the rest is in directory pages"
    return head + _CHECKSUM.pack(checksum(head))


def directory_of(extents: PageExtents) -> list[tuple[int, bytes]]:
    """Return slot and content of the directory pages; nothing if the header has room.

    To be called before ``encode_header``: they get their slots here.
    """
    if len(extents) <= _EXTENT_COUNT_HERE and not extents.directory_slots:
        return []
    step = _EXTENT_COUNT_OF_PAGE
    extents.grow_directory(-(-len(extents) // step))
    placed = list(extents.placed)
    return [
        (slot, _packed(placed[step * at : step * (at + 1)]).ljust(PAGE_LOCATIONS_SIZE, b"\0"))
        for at, slot in enumerate(extents.directory_slots)
    ]


def _packed(extents: Iterable[Extent]) -> bytes:
    return b"".join(
        _EXTENT_2.pack(
            one.first,
            one.last - one.first + 1 | (_SPARSE_2 if one.is_sparse else 0),
            one.slot,
        )
        for one in extents
    )


def _unpacked(data: bytes, count: int) -> Iterator[Extent]:
    for first, page_count, slot in _EXTENT_2.iter_unpack(data[: count * _EXTENT_2.size]):
        last = first + (page_count & ~_SPARSE_2) - 1
        yield Extent(first, last, slot, bool(page_count & _SPARSE_2))


def decode_header(data: bytes, ledger_id: int, where: str) -> LedgerIndex:
    """Return what a header says; of extents in directory pages only where these are.

    Raises:
        ShortRecordError: the file ends inside of it.
        CorruptRecordError: it is damaged, or another ledger's.
    """
    if len(data) < INDEX_HEADER_SIZE:
        raise ShortRecordError(where, 0, "ends inside the index header")
    (stored,) = _CHECKSUM.unpack_from(data, _HEAD_END)
    if checksum(data[:_HEAD_END]) != stored:
        raise CorruptRecordError(where, 0, "the index header is damaged")
    magic, flags, code, own_id, key, explicit_lac, last_add_synced, last_entry_id, count, slots = (
        _FIELDS.unpack_from(data, 0)
    )
    if magic not in {_MAGIC, _MAGIC_2} or own_id != ledger_id or code not in LEDGER_TYPE_OF_CODE:
        raise CorruptRecordError(where, 0, f"not the index header of ledger {ledger_id}")
    index = LedgerIndex(ledger_id, key, LEDGER_TYPE_OF_CODE[code])
    index.is_fenced = bool(flags & _FENCED)
    index.explicit_lac = explicit_lac
    index.last_add_synced = last_add_synced
    index.last_entry_id = last_entry_id
    index.has_file = True
    if magic == _MAGIC:
        extents = data[_FIELDS.size : _FIELDS.size + count * _EXTENT.size]
        index.extents = PageExtents(
            Extent(first, first + page_count - 1, first, bool(extent_flags & _SPARSE))
            for first, page_count, extent_flags in _EXTENT.iter_unpack(extents)
        )
        return index
    directory_count, _ = _DIRECTORY.unpack_from(data, _FIELDS.size)
    if directory_count:
        index.directory_extent_count = count
        end = _EXTENTS_2_AT + directory_count * _SLOT.size
        directory = [slot for (slot,) in _SLOT.iter_unpack(data[_EXTENTS_2_AT:end])]
        index.extents = PageExtents((), slots, directory)
    else:
        index.extents = PageExtents(_unpacked(data[_EXTENTS_2_AT:], count), slots)
    return index


def read_directory(file: File, index: LedgerIndex) -> None:
    """Record the extents that are in directory pages, if any are, out of an open index file.

    Raises:
        CorruptRecordError: one is damaged or cannot be read.
    """
    count = index.directory_extent_count
    if not count:
        return
    extents: list[Extent] = []
    slots = index.extents.directory_slots
    for number, slot in enumerate(slots):
        page = read_whole_page(file, index.ledger_id, DIRECTORY_PAGE + number, slot)
        left = min(count - len(extents), _EXTENT_COUNT_OF_PAGE)
        extents += _unpacked(bytes(to_disk(page)), left)
    index.extents = PageExtents(extents, index.extents.slot_count, slots)
    index.directory_extent_count = 0


class IndexPath(msgspec.Struct, frozen=True):
    """Where a ledger's index file lies."""

    directory: str
    path: str

    @classmethod
    def of(cls, root: str, ledger_id: int) -> Self:
        """Return the place below the ``root`` of all index files."""
        directory = f"{root}/{ledger_id >> 16 & 0xFF:02x}/{ledger_id >> 8 & 0xFF:02x}"
        return cls(directory, f"{directory}/{ledger_id:016x}{_SUFFIX}")


def ledger_ids(files: FileSystem, root: str) -> list[int]:
    """Return the ids of all ledgers that have an index file, ascending."""
    stems = (path.rpartition("/")[2].removesuffix(_SUFFIX) for path in _paths(files, root, _SUFFIX))
    return sorted(int(stem, 16) for stem in stems)


def ledger_id_in(name: str) -> int | None:
    """Return the ledger that an index file of this name is of; ``None``: it is none."""
    stem, dot, suffix = name.partition(".")
    is_one = dot + suffix == _SUFFIX and set(stem) <= set("0123456789abcdef")
    return int(stem, 16) if is_one and len(stem) == 16 else None


def unfinished_paths(files: FileSystem, root: str) -> list[str]:
    """Return the paths of index files that were being made when the bookie died."""
    return list(_paths(files, root, _SUFFIX + NEW_SUFFIX))


def index_directories(files: FileSystem, root: str) -> Iterator[str]:
    """Yield ``root`` and the two levels of directories below it; the last one holds the files."""
    yield root
    for upper in files.list_dir(root):
        yield f"{root}/{upper}"
        for lower in files.list_dir(f"{root}/{upper}"):
            yield f"{root}/{upper}/{lower}"


def _paths(files: FileSystem, root: str, suffix: str) -> Iterator[str]:
    for directory in index_directories(files, root):
        for name in files.list_dir(directory):
            if name.endswith(suffix):
                yield f"{directory}/{name}"


def read_whole_page(file: File, ledger_id: int, page_no: int, slot: int) -> "array[int]":
    """Return the locations in a page that was written, out of an open index file.

    Raises:
        CorruptRecordError: it is damaged or cannot be read.
    """
    offset = page_offset(slot)
    with as_damage(file.path, offset):
        data = file.pread(PAGE_SIZE, offset)
    locations = decode_page(data, ledger_id, page_no, file.path, slot=slot)
    assert locations is not None, "it may not be a hole"
    return locations


class IndexReader:
    """Reads headers and pages. Its files are closed when too many are open."""

    def __init__(self, root: str, open_files: OpenFiles) -> None:
        self._root = root
        self._open_files = open_files

    def read_header(self, ledger_id: int) -> LedgerIndex | None:
        """Return what the file says of its ledger; ``None`` if there is no such file.

        Raises:
            CorruptRecordError: it is damaged or cannot be read.
        """
        path = IndexPath.of(self._root, ledger_id).path
        with as_damage(path):
            try:
                with self._open_files.use(path) as file:
                    index = decode_header(file.pread(INDEX_HEADER_SIZE, 0), ledger_id, path)
                    size = file.size()
                    _check_length(path, size, index)
                    if index.directory_extent_count:
                        read_directory(file, index)
                        _check_length(path, size, index)
            except FileNotFoundError:
                return None
        return index

    def read_page(self, index: LedgerIndex, page_no: int) -> Page | None:
        """Return a page; ``None`` if it was never written.

        Raises:
            CorruptRecordError: it is damaged or cannot be read.
        """
        if not index.extents.holds(page_no):
            return None
        path = IndexPath.of(self._root, index.ledger_id).path
        slot = index.extents.slot_of(page_no)
        offset = page_offset(slot)
        with as_damage(path, offset), self._open_files.use(path) as file:
            data = file.pread(PAGE_SIZE, offset)
        locations = decode_page(
            data,
            index.ledger_id,
            page_no,
            path,
            slot=slot,
            may_be_hole=index.extents.is_sparse_at(page_no),
        )
        return None if locations is None else Page(locations)

    def forget(self, ledger_id: int) -> None:
        """Close the file of a ledger that was deleted."""
        self._open_files.forget(IndexPath.of(self._root, ledger_id).path)


def _check_length(path: str, size: int, index: LedgerIndex) -> None:
    if size < page_offset(index.extents.slot_end):
        raise ShortRecordError(path, size, "the file ends before its last page")
