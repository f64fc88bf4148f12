"""The content of an entry log, from its map or from a walk over its blocks.

For garbage collection, compaction and inspection. Whatever is damaged, a log with entries is never
reported as empty. Any thread; opens its own file.

Source: BookKeeper's ``DefaultEntryLogger.getEntryLogMetadata``; issue #4607 for the distrust.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, Protocol

import msgspec

from zbk.errors import CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.fail_stop import as_damage
from zbk.storage.disk.write_again import write_again
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import (
    BLOCK_HEADER_SIZE,
    BLOCK_MAGIC,
    FOOTER_SIZE,
    LOG_HEADER_SIZE,
    BlockHeader,
    check_log_header,
    decode_block_header,
    decode_footer,
    decode_map,
    log_seed,
)
from zbk.system.files import File, FileSystem

SEARCH_SIZE: Final = 1024 * 1024
"""Bytes of one read in the search for the next block after damage."""


class Block(msgspec.Struct, frozen=True):
    """A block whose header is whole."""

    offset: int  # of its first entry, in the log
    header: BlockHeader
    is_intact: bool  # the body passes its checksum

    @property
    def size(self) -> int:
        """Bytes of the entries."""
        return self.header.body_size


class Damage(msgspec.Struct, frozen=True):
    """Bytes that belong to no block."""

    offset: int
    size: int
    is_tail: bool  # no block follows: in an unsealed log, a write that a crash cut off


class ReadableFile(Protocol):
    """The part of an open file that a walk uses."""

    @property
    def path(self) -> str:
        """Its path."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset``; fewer only at the end of the file."""
        ...

    def size(self) -> int:
        """Return the file's length."""
        ...


class BlockWalk:
    """The blocks of one open log, without its header. Errors are ``OSError``."""

    def __init__(self, file: ReadableFile, seed: int) -> None:
        self._file = file
        self._path = file.path
        self._seed = seed

    def blocks(
        self, *, is_body_read: bool, start: int = LOG_HEADER_SIZE
    ) -> Iterator[Block | Damage]:
        """Yield blocks and damage up to the map, or to the end of a log without a whole map."""
        offset, end = start, self.end_of_blocks()
        while offset < end:
            header = self._header_at(offset)
            if header is None:
                next_offset = self._find_header(offset + 1, end)
                yield Damage(offset, next_offset - offset, is_tail=next_offset == end)
                offset = next_offset
                continue
            offset += BLOCK_HEADER_SIZE
            yield Block(offset, header, self._is_intact(offset, header, end, is_body_read))
            # the next header may be inside a body that a crash cut off
            body_end = offset + header.body_size
            offset = body_end if body_end <= end else self._find_header(offset, end)

    def end_of_blocks(self) -> int:
        """Return the offset of the map; without a whole footer, the size of the file."""
        size = self._file.size()
        try:
            footer = self._file.pread(FOOTER_SIZE, max(0, size - FOOTER_SIZE))
            return decode_footer(footer, size, self._seed, self._path)[0]
        except CorruptRecordError:
            return size

    def tail_start(self, size_min: int) -> int:
        """Return the offset of a block, ``size_min`` bytes before the end of blocks or earlier."""
        end = self.end_of_blocks()
        while (start := end - size_min) > LOG_HEADER_SIZE:
            found = self._find_header(start, end)
            if found < end:
                return found
            size_min *= 2  # one large block
        return LOG_HEADER_SIZE

    def _header_at(self, offset: int) -> BlockHeader | None:
        try:
            head = self._file.pread(BLOCK_HEADER_SIZE, offset)
            return decode_block_header(head, 0, self._seed, self._path)
        except CorruptRecordError:
            return None

    def _find_header(self, offset: int, end: int) -> int:
        while offset < end:
            window = self._file.pread(SEARCH_SIZE, offset)
            found = window.find(BLOCK_MAGIC)
            while found >= 0:
                if self._header_at(offset + found) is not None:
                    return offset + found
                found = window.find(BLOCK_MAGIC, found + 1)
            if offset + len(window) >= end:
                break
            offset += len(window) - len(BLOCK_MAGIC) + 1
        return end

    def _is_intact(self, offset: int, header: BlockHeader, end: int, is_body_read: bool) -> bool:
        if offset + header.body_size > end:
            return False
        if not is_body_read:
            return True
        body = self._file.pread(header.body_size, offset)
        return checksum(body) == header.body_checksum


def write_block_again(file: File, block: Block) -> None:
    """Write a block, and the header of its log, over themselves (``write_again``).

    Raises:
        OSError: they cannot be written.
    """
    write_again(file, 0, LOG_HEADER_SIZE)
    write_again(file, block.offset - BLOCK_HEADER_SIZE, block.offset + block.size)


class EntryLogScan:
    """One log, read from outside the bookie's storage.

    Raises:
        CorruptRecordError: from each method: the log cannot be read at all.
        CookieMismatchError: from ``blocks`` and its callers: the log is another bookie's.
    """

    def __init__(self, files: FileSystem, directory: str, log_id: int, owner: bytes) -> None:
        self._files = files
        self._path = log_path(directory, log_id)
        self._log_id = log_id
        self._owner = owner
        self._seed = log_seed(owner, log_id)

    def size_by_ledger(self) -> dict[int, int]:
        """Return the bytes of entries of each ledger: from the map, or else by a full scan."""
        with_map = self._read_map()
        if with_map is not None:
            return with_map
        sizes: dict[int, int] = {}
        for found in self.blocks(is_body_read=False):
            if isinstance(found, Block):
                header = found.header
                sizes[header.ledger_id] = sizes.get(header.ledger_id, 0) + header.body_size
        return sizes

    def map_of_ledgers(self) -> dict[int, int] | None:
        """Return the bytes of entries of each ledger in the map; ``None``: no whole map."""
        return self._read_map()

    def blocks(self, *, is_body_read: bool = True) -> Iterator[Block | Damage]:
        """Yield blocks and damage; a body that is not read counts as intact if it is complete."""
        with self._open() as file:
            yield from self._walk(file, is_body_read=is_body_read)

    @contextmanager
    def _open(self) -> Iterator[File]:
        with as_damage(self._path), closing(self._files.open(self._path, write=False)) as file:
            yield file

    def _walk(self, file: File, *, is_body_read: bool) -> Iterator[Block | Damage]:
        try:
            check_log_header(file.pread(LOG_HEADER_SIZE, 0), self._owner, self._log_id, self._path)
        except CorruptRecordError:
            yield Damage(0, min(LOG_HEADER_SIZE, file.size()), is_tail=False)
        yield from BlockWalk(file, self._seed).blocks(is_body_read=is_body_read)

    def _read_map(self) -> dict[int, int] | None:
        with self._open() as file:
            size = file.size()
            footer = file.pread(FOOTER_SIZE, max(0, size - FOOTER_SIZE))
            try:
                offset, map_size = decode_footer(footer, size, self._seed, self._path)
                return decode_map(file.pread(map_size, offset), footer, self._path)
            except CorruptRecordError:
                return None
