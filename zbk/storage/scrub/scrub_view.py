"""One ledger directory as a scrubber sees it: files on disk, and the index through its owner.

The scrubber reads files while the bookie writes them. The owner of the index then checks again what
looks wrong, because it knows what is being written, has moved or was deleted.

Threads: ``locations`` and ``disk_state`` belong to the owner of the index, and read at most one
header and one page; everything else belongs to any one thread.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from zbk.errors import (
    CorruptRecordError,
    NoSuchLedgerError,
    OutOfDescriptorsError,
    ShortRecordError,
)
from zbk.storage.directory_parts import DirectoryParts
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.left_logs import LeftLogs
from zbk.storage.entry_logs.location import split_location
from zbk.storage.entry_logs.stored_copies import StoredCopies
from zbk.storage.index.index_file import IndexReader, index_directories, ledger_id_in

OPEN_FILES_MAX: Final = 4


class DiskState(Enum):
    """The state of a header or a page on disk, as the owner sees it."""

    WHOLE = "whole"
    MENDED = "mended"  # damaged; memory has it, and the next flush writes it again
    DAMAGED = "damaged"
    GONE = "gone"  # the ledger was deleted
    BUSY = "busy"  # a flush is under way and may be writing it


class ScrubView:
    """One directory. Made by ``LedgerDirectory``."""

    def __init__(self, parts: DirectoryParts) -> None:
        self._census = parts.census
        self.lost_logs: Mapping[int, int] = {}  # with the bytes left of each, at the start
        self.is_index_lost: Callable[[], bool] = lambda: False  # of a ledger in limbo
        self.files = parts.files
        self.owner = parts.owner
        self.index_dir = parts.index_dir
        self.log_dir = parts.log_dir
        self._deleted = parts.deleted
        self._cache = parts.cache
        self._logs = parts.logs
        self.lost = parts.lost
        self._open_files = OpenFiles(parts.files, OPEN_FILES_MAX)
        self._owners_files = OpenFiles(parts.files, 1)
        self._owners_reader = IndexReader(self.index_dir, self._owners_files)
        self.reader = IndexReader(self.index_dir, self._open_files)
        self.copies = StoredCopies(self.read_log, parts.owner)

    # ------------------------------------------------------------------ the scrubber

    @property
    def ledger_count(self) -> int:
        """The number of ledgers."""
        return self._cache.ledger_count

    def is_deleted(self, ledger_id: int) -> bool:
        """Return whether a ledger was deleted."""
        return ledger_id in self._deleted

    def logs(self) -> list[tuple[int, int | None]]:
        """Return the ids of the logs; of those that adds go to, also the bytes written.

        Raises:
            OSError: they cannot be listed.
        """
        found = log_ids(self.files, self.log_dir)
        ends = self._logs.open_sizes()
        complete: list[tuple[int, int | None]]
        complete = [(log_id, None) for log_id in found if log_id not in ends]
        return complete + [(log_id, ends[log_id]) for log_id in found if ends.get(log_id)]

    @property
    def left_logs(self) -> LeftLogs:
        """The logs all pointers to which are on disk."""
        return self._logs.left

    def ledgers(self) -> Iterator[list[int]]:
        """Yield the ids of the ledgers with an index file, directory by directory.

        Raises:
            OSError: a directory cannot be listed.
        """
        for directory in index_directories(self.files, self.index_dir):
            names = self.files.list_dir(directory)
            found = [one for name in names if (one := ledger_id_in(name)) is not None]
            if found:
                yield found

    def forget_logs(self, log_ids: Iterable[int]) -> None:
        """Record, durably, that no index points at logs that are lost.

        Does nothing while the index of a ledger is lost, which may have pointed there.

        Raises:
            StorageFailedError: it cannot be written, or anything failed before.
        """
        gone = frozenset(log_ids)
        if gone and not self.is_index_lost() and self._census.forget_logs(gone):
            self.lost_logs = {one: self.lost_logs[one] for one in self.lost_logs.keys() - gone}

    def read_log(self, location: int, size: int) -> bytes:
        """Return up to ``size`` bytes from a location on.

        Raises:
            OSError: the log is missing or cannot be read.
        """
        log_id, offset = split_location(location)
        with self._open_files.use(log_path(self.log_dir, log_id)) as file:
            return file.pread(size, offset)

    def close_files(self) -> None:
        """Close all files: an open file that is removed meanwhile keeps its bytes on the disk."""
        self._open_files.close()

    # ------------------------------------------------------------------ the owner

    def locations(self, ledger_id: int, entry_ids: Sequence[int]) -> "array[int] | None":
        """Return the present locations of entries of one page; ``None``: the index has none now."""
        try:
            return self._cache.handle(ledger_id).locations_of(entry_ids)
        except (NoSuchLedgerError, CorruptRecordError, OutOfDescriptorsError):
            return None

    def disk_state(self, ledger_id: int, page_no: int | None) -> DiskState:
        """Return the state on disk of a page, or without a number, of the header."""
        if self._cache.is_flushing:
            return DiskState.BUSY
        try:
            return self._disk_state(ledger_id, page_no)
        except OutOfDescriptorsError:
            return DiskState.BUSY

    def _disk_state(self, ledger_id: int, page_no: int | None) -> DiskState:
        try:
            if self._cache.info(ledger_id) is None:
                return DiskState.GONE
        except CorruptRecordError:
            return DiskState.DAMAGED
        reader = self._owners_reader
        try:
            header = reader.read_header(ledger_id)
            if header is not None and page_no is not None:
                reader.read_page(header, page_no)
        except ShortRecordError:
            return DiskState.DAMAGED  # more than a header or a page is missing
        except CorruptRecordError:
            is_mended = self._cache.mend(ledger_id, page_no)
            return DiskState.MENDED if is_mended else DiskState.DAMAGED
        finally:
            self._owners_files.close()
        return DiskState.WHOLE
