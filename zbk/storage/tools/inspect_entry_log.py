"""Looks at one entry log: its blocks, the entries in them, its map, and where it is damaged.

A log without a map was not sealed: it is being written, or its bookie died; its tail may then be
torn, which is a fault like any other damage, because no byte tells the one from the other.

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
from zbk.storage.tools.inspection import Fault, Verdict, id_in_name
from zbk.system.files import File, FileSystem

_NAME_DIGIT_COUNT: Final = 8


class FoundEntry(msgspec.Struct, frozen=True):
    """An entry of a block, as its first bytes say."""

    offset: int  # in the file
    entry_id: int
    size: int


class FoundBlock(msgspec.Struct, frozen=True):
    """A block that is whole."""

    offset: int  # of its first entry
    header: BlockHeader
    entries: list[FoundEntry]


class EntryLogInspection:
    """One log. ``bookie_id`` says whose it is, should its header be lost.

    ``findings`` comes first, once, and to its end; then the attributes say what it amounts to.
    """

    def __init__(self, files: FileSystem, path: str, bookie_id: str | None = None) -> None:
        self._files = files
        self._path = path
        self._bookie_id = bookie_id
        self.log_id: int | None = id_in_name(path, _NAME_DIGIT_COUNT)
        self.owner_hash: int | None = None if bookie_id is None else checksum(bookie_id.encode())
        self.map: dict[int, int] | None = None  # bytes by ledger, as the map says
        self.is_sealed = False
        self.entry_count = 0
        self.size_by_ledger: dict[int, int] = {}  # as the blocks say
        self.fault_count = 0
        self.is_readable = True  # the disk gave all of it
        self.is_stub = False  # too short for a header: made just before a crash, as a rule

    @property
    def verdict(self) -> Verdict:
        """What the findings amount to."""
        return Verdict.DAMAGED if self.fault_count else Verdict.CLEAN

    def findings(self) -> Iterator[FoundBlock | Fault]:
        """Yield blocks and faults in the order of their offsets; those of the map come last."""
        for finding in self._read():
            self.fault_count += isinstance(finding, Fault)
            yield finding

    def _read(self) -> Iterator[FoundBlock | Fault]:
        try:
            file = self._files.open(self._path, write=False)
        except OSError as error:
            self.is_readable = False
            yield Fault(0, 0, f"cannot be opened: {error.strerror}")
            return
        offset = 0
        try:
            self.is_stub = is_stub(file.size())
            yield from self._header(file)
            if self.log_id is None or self.owner_hash is None:
                return
            seed = log_seed_of(self.owner_hash, self.log_id)
            for found in BlockWalk(file, seed).blocks(is_body_read=True):
                offset = found.offset
                if isinstance(found, Block):
                    yield from self._block(file, found)
                else:
                    what = "a write cut off, or damage" if found.is_tail else "damage"
                    yield Fault(found.offset, found.size, f"no block: {what}")
            yield from self._map(file, seed)
        except OSError as error:
            self.is_readable = False
            yield Fault(offset, 0, f"cannot be read: {error.strerror}")
        finally:
            file.close()

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
                    "without the header no block can be checked: say whose it is with --bookie, "
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
            yield Fault(block.offset, header.body_size, f"a block holds something else: {named}")
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
            return  # not sealed; what a damaged footer left was no block
        self.is_sealed = True
        try:
            self.map = decode_map(file.pread(map_size, offset), footer, self._path)
        except CorruptRecordError as error:
            yield Fault(offset, map_size, error.reason)
            return
        if not self.fault_count and self.map != self.size_by_ledger:
            yield Fault(offset, map_size, "the map does not say what the blocks hold")


def _entries(body: bytes, block: Block) -> list[FoundEntry] | None:
    """Return the entries of a body; ``None`` if they are not what the block's header says."""
    header = block.header
    found = entries_of(body, header.count)
    if found is None or (found[0], found[1][0]) != (header.ledger_id, header.first_entry_id):
        return None
    _, entry_ids, sizes = found
    offsets = accumulate(sizes, initial=block.offset)
    return [FoundEntry(*one) for one in zip(offsets, entry_ids, sizes, strict=False)]
