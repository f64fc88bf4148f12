"""One entry log that is being written, or is full and may not be synced.

Made by ``zbk.storage.entry_logs.entry_log.EntryLogs``, whose owner it belongs to. Any thread may
read ``log_id`` and ``offset``.

Format: ``zbk.storage.entry_logs.format``.
"""

from collections.abc import Callable, Sequence

from zbk.errors import NoSpaceError, OutOfDescriptorsError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.entry_logs.format import (
    BLOCK_HEADER_SIZE,
    LOG_HEADER_SIZE,
    encode_block_header,
    encode_log_header,
    encode_map,
    log_seed,
)
from zbk.storage.entry_logs.location import location_of
from zbk.storage.entry_logs.log_sync import FileSync
from zbk.system.files import Buffer, File, FileSystem


class OpenLog:
    """One log. ``create`` comes first, ``seal`` last.

    Attributes:
        offset: the end of its blocks; 0 while the file may lack its header, or may not exist.
        reported_offset: the end when its growth was last reported.
        ahead_offset: the end of what ``EntryLogs.sync_ahead`` has synced.
        size_by_ledger: bytes of each ledger's entries.
        is_full: nothing follows.
    """

    def __init__(
        self, files: FileSystem, directory: str, path: str, log_id: int, fail_stop: FailStop
    ) -> None:
        self._files = files
        self._directory = directory
        self._fail_stop = fail_stop
        self._seed = 0
        self._file: File | None = None
        self._is_dirty = False
        self._is_name_new = False
        self.is_full = False
        self._sync: FileSync | None = None  # the last one
        self.path = path
        self.log_id = log_id
        self.offset = 0
        self.reported_offset = self.ahead_offset = 0
        self.size_by_ledger: dict[int, int] = {}

    def create(self, owner: bytes, note: Callable[[], None]) -> None:
        """Make the file, and ``note`` that it exists.

        Raises:
            NoSpaceError, OutOfDescriptorsError: there is no file.
            StorageFailedError: writing failed.
        """
        with self._fail_stop.guard(self.path, "create"):
            file = self._files.open(self.path, create=True)
            try:
                file.pwrite([encode_log_header(owner, self.log_id)], 0)
                note()
            except (OSError, OutOfDescriptorsError):
                file.close()
                self._files.remove(self.path)  # it is empty, and the next log has its id
                raise
        self._file = file
        self._seed = log_seed(owner, self.log_id)
        self.reported_offset = LOG_HEADER_SIZE
        self._is_dirty = self._is_name_new = True
        self.offset = LOG_HEADER_SIZE

    def append(self, batches: Sequence[EntryBatch]) -> list[int]:
        """Write batches in one write; return the location of each one's first entry.

        Raises:
            NoSpaceError: none of them was appended.
            StorageFailedError: the write failed.
        """
        buffers: list[Buffer] = []
        bases = []
        offset = self.offset
        sizes = self.size_by_ledger
        for batch in batches:
            buffers += (encode_block_header(batch, self._seed), batch.body)
            bases.append(location_of(self.log_id, offset + BLOCK_HEADER_SIZE))
            offset += BLOCK_HEADER_SIZE + len(batch.body)
        self._write(buffers)
        self.offset = offset
        for batch in batches:
            sizes[batch.ledger_id] = sizes.get(batch.ledger_id, 0) + len(batch.body)
        return bases

    def take_back(self, batches: Sequence[EntryBatch]) -> None:
        """Remove the batches of the last ``append``, to which no index points.

        Raises:
            StorageFailedError: the file cannot be cut.
        """
        end = self.offset - sum(BLOCK_HEADER_SIZE + len(batch.body) for batch in batches)
        self._cut(end)
        self.offset = end
        for batch in batches:
            self.size_by_ledger[batch.ledger_id] -= len(batch.body)

    def seal(self) -> int:
        """Write the map after the last block; return the size of the file.

        Raises:
            NoSpaceError: there is no map, and nothing has changed.
            StorageFailedError: the write failed.
        """
        seal = encode_map(self.size_by_ledger, self.offset, self._seed)
        self._write([seal])
        self.is_full = True
        return self.offset + len(seal)

    @property
    def is_synced(self) -> bool:
        """True when nothing follows, and all of it is on stable storage."""
        is_behind = self._is_dirty or self._sync is None or not self._sync.is_done
        return self.is_full and not is_behind

    def begin_sync(self) -> FileSync | None:
        """Return a sync of everything appended up to now; ``None``: it is on stable storage."""
        before = None if self._sync is None or self._sync.is_done else self._sync
        if not self._is_dirty:
            return before
        assert self._file is not None, "it was written"
        self._sync = FileSync(
            self._files,
            self._file,
            self._fail_stop,
            directory=self._directory if self._is_name_new else None,
            is_last=self.is_full,
            before=before,
        )
        self._is_dirty = self._is_name_new = False
        return self._sync

    def close(self) -> None:
        """Close the file without a sync, unless one is under way that closes it."""
        is_closed_by_sync = self.is_full and not self._is_dirty
        if self._file is not None and not is_closed_by_sync:
            self._file.close()

    def _write(self, buffers: list[Buffer]) -> None:
        assert self._file is not None, "it was created"
        self._is_dirty = True
        try:
            with self._fail_stop.guard(self.path, "write"):
                self._file.pwrite(buffers, self.offset)
        except NoSpaceError:
            self._cut(self.offset)  # the index does not point at these bytes
            raise

    def _cut(self, end: int) -> None:
        assert self._file is not None, "it was created"
        with self._fail_stop.guard(self.path, "truncate"):
            self._file.truncate(end)
