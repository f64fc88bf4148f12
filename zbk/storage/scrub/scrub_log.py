"""Reads one entry log, and reports where it is not what was written.

It checks the header, each block's header, each body, that a body consists of the entries in its
header, and the map at the end. A log without a map was being written when the bookie died: bytes
after its last whole block were never promised, and are damage only if the index points there. The
same holds for a log without a header. Entries do not depend on the map: its damage is reported, but
concerns no ledger. Of the log that adds go to, the scrub reads the bytes that were written at some
moment, and all of them must be whole.

Sectors that the disk cannot read count as zeros, and fail their checksum. After
``FAILED_READ_COUNT_MAX`` such reads the rest of the log counts as lost.

Memory: one block, the sizes of its ledgers (as the writer of the log had them), ``regions``. A
search for the next block after damage is one step, whose bytes are paid afterwards.
"""

from collections.abc import Iterator
from typing import Final

from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.protocol.upkeep.scrub import DamagedFile
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import (
    FOOTER_SIZE,
    LOG_HEADER_SIZE,
    BlockHeader,
    check_log_header,
    decode_footer,
    decode_map,
    is_stub,
    log_seed,
)
from zbk.storage.entry_logs.location import OFFSET_MAX
from zbk.storage.entry_logs.runs import entries_of
from zbk.storage.entry_logs.scan import Block, BlockWalk, Damage
from zbk.storage.scrub.scrub_effects import Paid
from zbk.system.files import File, FileSystem

SECTOR_SIZE: Final = 4096
FAILED_READ_COUNT_MAX: Final = 64
LOOK_COUNT: Final = 2
"""Reads of a body before it counts as damaged."""

_PAIR_SIZE: Final = 16


class LogScrub:
    """One log. ``steps`` runs once, to its end; then ``regions`` are complete."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        log_id: int,
        owner: bytes,
        *,
        end: int | None = None,
    ) -> None:
        """``end``: of the bytes written; ``None``: of a complete log."""
        self._end_offset = end
        self._files = files
        self._path = log_path(directory, log_id)
        self._log_id = log_id
        self._owner = owner
        self._seed = log_seed(owner, log_id)
        self._pending: DamagedFile | None = None  # the first since the last whole block
        self._size_by_ledger: dict[int, int] = {}
        self._tail_size = 0
        self.regions: list[tuple[int, int]] = []  # begin and end of bytes that are not sound
        self.is_judged_by_index = False  # they are damage only if the index points there
        self.share = 0.0  # of the log, read so far

    def steps(self) -> Iterator[Paid | DamagedFile]:
        """Yield the bytes read, and damage as it is found."""
        try:
            opened = self._files.open(self._path, write=False)
        except FileNotFoundError:
            return  # removed since it was listed
        except OSError as error:
            yield self._fault(0, OFFSET_MAX, f"cannot be opened: {error.strerror}")
            return
        file = PatientFile(opened, self._end_offset)
        try:
            yield from self._read(file)
        except OSError as error:
            last = self.regions[-1][1] if self.regions else 0
            self.is_judged_by_index = False
            yield self._fault(last, OFFSET_MAX, f"cannot be read: {error.strerror}")
        finally:
            opened.close()
        if file.failed_offset is not None:  # also if no index points there
            self.is_judged_by_index = False
            yield DamagedFile(self._path, file.failed_offset, "sectors cannot be read")

    def _read(self, file: "PatientFile") -> Iterator[Paid | DamagedFile]:
        size = file.size()
        if is_stub(size) and self._end_offset is None:
            self.regions.append((0, OFFSET_MAX))
            self.is_judged_by_index = True
            return
        walk = BlockWalk(file, self._seed)
        is_sealed = walk.end_of_blocks() != size
        self.is_judged_by_index = self._end_offset is None
        yield from self._header(file)
        for found in walk.blocks(is_body_read=False):
            if isinstance(found, Damage):
                self._tail_size = found.size if found.is_tail else 0
                self._pend(found.offset, found.size, "no block of entries", None)
            elif self._is_sound(file, found):
                sizes, header = self._size_by_ledger, found.header
                sizes[header.ledger_id] = sizes.get(header.ledger_id, 0) + header.body_size
                yield from self._take_faults()
            self.share = found.offset / size
            yield Paid(file.take_read_size())
            if not self._files.exists(self._path):
                return  # removed: an open file would keep its bytes on the disk
        yield from self._end(file, is_sealed=is_sealed)

    def _header(self, file: "PatientFile") -> Iterator[DamagedFile]:
        header = file.pread(LOG_HEADER_SIZE, 0)
        try:
            check_log_header(header, self._owner, self._log_id, self._path)
        except CorruptRecordError as error:
            self.is_judged_by_index &= not any(header)
            yield self._fault(0, LOG_HEADER_SIZE, error.reason)
        except CookieMismatchError as error:
            self.is_judged_by_index = False
            yield DamagedFile(self._path, 0, str(error))

    def _is_sound(self, file: "PatientFile", block: Block) -> bool:
        """Return whether a block is what was written; a bad one is read a second time."""
        header = block.header
        for _ in range(LOOK_COUNT if block.is_intact else 0):
            body = file.pread(header.body_size, block.offset)
            if checksum(body) == header.body_checksum:
                break
        else:
            self._pend_block(block, "fails its checksum" if block.is_intact else "is cut off")
            return False
        if not is_made_of_entries(body, header):
            self._pend_block(block, "does not hold what its header says")
            return False
        return True

    def _pend_block(self, block: Block, what: str) -> None:
        header = block.header
        last = f"{header.count} entries from {header.first_entry_id} on"
        self._pend(
            block.offset,
            header.body_size,
            f"a block of ledger {header.ledger_id}, {last}, {what}",
            header.ledger_id,
        )

    def _end(self, file: "PatientFile", *, is_sealed: bool) -> Iterator[Paid | DamagedFile]:
        if self._end_offset is not None:
            if file.size() < self._end_offset:
                self._pend(file.size(), OFFSET_MAX, "the bytes written after it are gone", None)
            yield from self._take_faults()
        elif is_sealed:
            yield from self._take_faults()
            yield from self._map(file)
        elif self._tail_size == FOOTER_SIZE + _PAIR_SIZE * len(self._size_by_ledger):
            self.is_judged_by_index = False
            yield from self._take_faults("the map at its end is damaged")
        # else: the torn tail of a log that was not sealed
        yield Paid(file.take_read_size())

    def _map(self, file: "PatientFile") -> Iterator[DamagedFile]:
        size = file.size()
        footer = file.pread(FOOTER_SIZE, size - FOOTER_SIZE)
        offset = size - FOOTER_SIZE
        try:
            offset, map_size = decode_footer(footer, size, self._seed, self._path)
            found = decode_map(file.pread(map_size, offset), footer, self._path)
        except CorruptRecordError as error:
            yield DamagedFile(self._path, offset, error.reason)
            return
        if not self.regions and found != self._size_by_ledger:
            yield DamagedFile(self._path, offset, "the map does not match the blocks")

    # ------------------------------------------------------------------ faults

    def _pend(self, offset: int, size: int, reason: str, ledger_id: int | None) -> None:
        fault = self._fault(offset, offset + size, reason, ledger_id)
        self._pending = self._pending or fault

    def _fault(
        self, offset: int, end: int, reason: str, ledger_id: int | None = None
    ) -> DamagedFile:
        self.regions.append((offset, end))
        return DamagedFile(self._path, offset, reason, ledger_id)

    def _take_faults(self, reason: str = "") -> Iterator[DamagedFile]:
        """Yield the first fault since the last whole block."""
        fault, self._pending = self._pending, None
        if fault is not None:
            yield DamagedFile(fault.path, fault.offset, reason or fault.reason, fault.ledger_id)


class PatientFile:
    """A file whose unreadable sectors read as zeros, and that counts the bytes read."""

    def __init__(self, file: File, end: int | None = None) -> None:
        """``end``: reads end there, if the file does not end earlier."""
        self._file = file
        self._end = end
        self._read_size = 0
        self._failed_count = 0
        self.failed_offset: int | None = None  # the first that cannot be read

    @property
    def path(self) -> str:
        """Where it was opened."""
        return self._file.path

    def size(self) -> int:
        """Return the number of bytes to read."""
        size = self._file.size()
        return size if self._end is None else min(size, self._end)

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end of the file.

        Raises:
            OSError: too much of the file cannot be read.
        """
        self._read_size += size
        try:
            return self._file.pread(size, offset)
        except OSError:
            end = min(offset + size, self._file.size())
            return b"".join(self._sectors(offset, end))

    def take_read_size(self) -> int:
        """Return the bytes read since the last call."""
        size, self._read_size = self._read_size, 0
        return size

    def _sectors(self, offset: int, end: int) -> Iterator[bytes]:
        while offset < end:
            size = min(SECTOR_SIZE - offset % SECTOR_SIZE, end - offset)
            try:
                yield self._file.pread(size, offset)
            except OSError:
                self._failed_count += 1
                if self.failed_offset is None:
                    self.failed_offset = offset
                if self._failed_count > FAILED_READ_COUNT_MAX:
                    raise
                yield bytes(size)
            offset += size


def is_made_of_entries(body: bytes, header: BlockHeader) -> bool:
    """Return whether a body consists of the entries in its header, with ascending ids."""
    found = entries_of(body, header.count)
    if found is None:
        return False
    ledger_id, entry_ids, _ = found
    return (ledger_id, entry_ids[0]) == (header.ledger_id, header.first_entry_id)
