"""Inspects one entry log: its blocks, the entries in them, its map, and its damage.

A log without a map was not sealed: it is being written, or its bookie died. Its tail may be torn,
which is a fault like any other damage, because the bytes do not show the difference.

Source: BookKeeper's ``ReadLogCommand`` and ``ReadLogMetadataCommand``.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.entry_logs.format import (
    FOOTER_SIZE,
    LOG_HEADER_SIZE,
    BlockHeader,
    decode_footer,
    decode_log_header,
    decode_map,
    is_stub,
    log_seed_of,
)
from zbk.storage.entry_logs.runs import entries_of
from zbk.storage.entry_logs.scan import Block, BlockWalk
from zbk.storage.tools.inspection import Fault, Inspection, id_in_name
from zbk.system.files import File, FileSystem

_NAME_DIGIT_COUNT: Final = 8


class FoundEntry(msgspec.Struct, frozen=True):
    """An entry of a block, from its header."""

    offset: int  # in the file
    entry_id: int
    size: int


class FoundBlock(msgspec.Struct, frozen=True):
    """A block that is whole."""

    offset: int  # of its first entry
    header: BlockHeader
    entries: list[FoundEntry]


class EntryLogInspection(Inspection[FoundBlock]):
    """One log: blocks in order, the faults of the map last.

    ``bookie_id`` is the owner of the log if its header is lost.
    """

    def __init__(self, files: FileSystem, path: str, bookie_id: str | None = None) -> None:
        super().__init__(files, path)
        self._bookie_id = bookie_id
        self.log_id: int | None = id_in_name(path, _NAME_DIGIT_COUNT)
        self.owner_hash: int | None = None if bookie_id is None else checksum(bookie_id.encode())
        self.map: dict[int, int] | None = None  # bytes by ledger, from the map
        self.is_sealed = False
        self.entry_count = 0
        self.size_by_ledger: dict[int, int] = {}  # from the blocks
        self.is_stub = False  # too short for a header: usually made just before a crash

    def _read(self, file: File) -> Iterator[FoundBlock | Fault]:
        self.is_stub = is_stub(file.size())
        yield from self._header(file)
        if self.log_id is None or self.owner_hash is None:
            return
        seed = log_seed_of(self.owner_hash, self.log_id)
        for found in BlockWalk(file, seed).blocks(is_body_read=True):
            self._offset = found.offset
            if isinstance(found, Block):
                yield from self._block(file, found)
            else:
                what = "a write cut off, or damage" if found.is_tail else "damage"
                yield Fault(found.offset, found.size, f"no block: {what}")
        yield from self._map(file, seed)

    def _header(self, file: File) -> Iterator[Fault]:
        named = self.log_id
        try:
            self.log_id, owner_hash = decode_log_header(file.pread(LOG_HEADER_SIZE, 0), self._path)
        except CorruptRecordError as error:
            yield Fault(0, LOG_HEADER_SIZE, error.reason)
            if self.owner_hash is None or named is None:
                yield Fault(
                    LOG_HEADER_SIZE,
                    max(0, file.size() - LOG_HEADER_SIZE),
                    "without the header no block can be checked: name its bookie with --bookie, "
                    "and keep the file's name",
                )
            return
        if self._bookie_id is not None and owner_hash != self.owner_hash:
            yield Fault(0, LOG_HEADER_SIZE, f"the log is not of bookie {self._bookie_id}")
        if named is not None and named != self.log_id:
            yield Fault(0, LOG_HEADER_SIZE, f"the header is of log {self.log_id}, not {named}")
        self.owner_hash = owner_hash

    def _block(self, file: File, block: Block) -> Iterator[FoundBlock | Fault]:
        header = block.header
        named = f"{header.count} entries of ledger {header.ledger_id}, from {header.first_entry_id}"
        if not block.is_intact:
            is_cut = block.offset + header.body_size > file.size()
            what = "is cut off" if is_cut else "fails its checksum"
            yield Fault(block.offset, header.body_size, f"a block {what}: {named}")
            return
        entries = _entries(file.pread(header.body_size, block.offset), block)
        if entries is None:
            yield Fault(
                block.offset,
                header.body_size,
                f"a block does not hold what its header says: {named}",
            )
            return
        self.entry_count += len(entries)
        sizes = self.size_by_ledger
        sizes[header.ledger_id] = sizes.get(header.ledger_id, 0) + header.body_size
        yield FoundBlock(block.offset, header, entries)

    def _map(self, file: File, seed: int) -> Iterator[Fault]:
        size = file.size()
        footer = file.pread(FOOTER_SIZE, max(0, size - FOOTER_SIZE))
        try:
            offset, map_size = decode_footer(footer, size, seed, self._path)
        except CorruptRecordError:
            return  # not sealed; a damaged footer was reported as no block
        self.is_sealed = True
        try:
            self.map = decode_map(file.pread(map_size, offset), footer, self._path)
        except CorruptRecordError as error:
            yield Fault(offset, map_size, error.reason)
            return
        if not self.fault_count and self.map != self.size_by_ledger:
            yield Fault(offset, map_size, "the map does not match the blocks")


def _entries(body: bytes, block: Block) -> list[FoundEntry] | None:
    """Return the entries of a body; ``None`` if they are not those in the block's header."""
    header = block.header
    found = entries_of(body, header.count)
    if found is None or (found[0], found[1][0]) != (header.ledger_id, header.first_entry_id):
        return None
    _, entry_ids, sizes = found
    offsets = accumulate(sizes, initial=block.offset)
    return [FoundEntry(*one) for one in zip(offsets, entry_ids, sizes, strict=False)]
