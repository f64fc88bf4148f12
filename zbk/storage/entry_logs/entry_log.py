"""Entry logs: the bytes of all entries of a bookie in order of arrival, ledgers interleaved.

Threads:
    owner    ``append``, ``begin_sync``, ``sync``, ``close``; ``take_id``
    any      ``read``; ``exists``; ``remove``; ``written``; ``LogSync.run``
    one      ``sync_ahead``

One list of batches is one gathered write to the page cache; a read sees it at once. A full log is
sealed with a map of its ledgers, and the next one begins. A restart begins a new log, too: the
bookie never writes after bytes that may not have reached the disk.

The index may point at an entry on disk only after ``begin_sync`` and ``run``: the writer of
index pages calls these first.

Format: ``zbk.storage.entry_logs.format``. Source: BookKeeper's ``DefaultEntryLogger``.
"""

from collections.abc import Callable, Sequence
from typing import Final

from zbk.errors import NoSpaceError, OutOfDescriptorsError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.disk.run_once import RunOnce
from zbk.storage.entry_logs.format import (
    BLOCK_HEADER_SIZE,
    LOG_HEADER_SIZE,
    encode_block_header,
    encode_log_header,
    encode_map,
    log_seed,
)
from zbk.storage.entry_logs.location import OFFSET_MAX, location_of, split_location
from zbk.system.files import Buffer, File, FileSystem, FsyncError

LOG_SIZE: Final = 1024 * 1024 * 1024
"""Bytes at which a log is complete."""

AHEAD_SIZE: Final = 2 * 1024 * 1024
"""Bytes of the current log that may be in the page cache only, roughly.

An fsync of the journal takes as long as what is on its way to the same disk."""

_SUFFIX: Final = ".log"


def log_path(directory: str, log_id: int) -> str:
    """Return the path of a log."""
    return f"{directory}/{log_id:08x}{_SUFFIX}"


def log_ids(files: FileSystem, directory: str) -> list[int]:
    """Return the ids of the logs in a directory, ascending."""
    stems = [
        name.removesuffix(_SUFFIX) for name in files.list_dir(directory) if name.endswith(_SUFFIX)
    ]
    return sorted(int(s, 16) for s in stems if len(s) == 8 and set(s) <= set("0123456789abcdef"))


class LogSync:
    """The sync of everything appended up to some moment.

    ``before``: syncs that began earlier and may not have run. Their files are not in this one, and
    are part of the promise.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str | None,
        left: Sequence[File],
        current: File | None,
        fail_stop: FailStop,
        before: Sequence["LogSync"] = (),
    ) -> None:
        self._before = before
        self._files = files
        self._directory = directory
        self._left = list(left)
        self._current = current
        self._fail_stop = fail_stop
        self._once = RunOnce(self._sync)

    def run(self) -> None:
        """Return when all of it is on stable storage. Any thread, any number of times.

        Raises:
            OutOfDescriptorsError: it may be run again.
            StorageFailedError: an fsync failed, or anything failed before.
        """
        self._fail_stop.check()
        for one in self._before:
            one.run()
        self._before = ()
        self._once.run()

    @property
    def is_done(self) -> bool:
        """True when all of it is on stable storage. Any thread."""
        return self._once.is_done and not self._before

    def _sync(self) -> None:
        while self._left:  # each file once, even if the directory has to be tried again
            self._sync_file(self._left[0])
            self._left.pop(0).close()
        if self._current is not None:
            self._sync_file(self._current)
        if self._directory is not None:
            with self._fail_stop.guard(self._directory, "fsync"):
                self._files.sync_dir(self._directory)

    def _sync_file(self, file: File) -> None:
        with self._fail_stop.guard(file.path, "fsync"):
            file.sync()


class EntryLogs:
    """The logs of one ledger directory. A new one is made with the first batch."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        owner: bytes,
        open_files: OpenFiles,
        fail_stop: FailStop,
        log_size_max: int = LOG_SIZE,
        ahead_size: int = AHEAD_SIZE,
    ) -> None:
        assert LOG_HEADER_SIZE < log_size_max <= OFFSET_MAX // 4, "a location has to hold offsets"
        self._files = files
        self._directory = directory
        self._owner = owner
        self._open_files = open_files
        self._fail_stop = fail_stop
        self._log_size_max = log_size_max
        self._ahead_size = ahead_size
        self._log_id = 0
        self._written = (0, 0)
        self._ahead = (0, 0)  # the value of ``_written`` when it was synced in advance
        self._reported_offset = 0  # in the current log, up to which ``on_grown`` was called
        self.on_grown: Callable[[], None] = lambda: None  # called when ``sync_ahead`` has work
        self._last_id = 0  # the highest id used, also by compaction
        self._sealed_sizes: dict[int, int] = {}  # of the logs since the start
        self._file: File | None = None
        self._seed = 0
        self._offset = 0
        self._size_by_ledger: dict[int, int] = {}
        self._left: list[File] = []  # full, and not synced since
        self._is_dirty = False
        self._is_name_new = False
        self._begun: list[LogSync] = []  # of ``begin_sync``, and maybe not run

    @property
    def last_log_id(self) -> int:
        """The id of the log that adds go to, or went to last; 0 before the first."""
        return self._log_id

    @property
    def written(self) -> tuple[int, int]:
        """The id of the current log, and the bytes written to it. Any thread.

        With 0 bytes the log may exist, even without its header. Any other log that was listed
        before this call is complete.
        """
        return self._written

    @property
    def log_size_max(self) -> int:
        """Bytes at which a log is complete."""
        return self._log_size_max

    def take_id(self) -> int:
        """Return an id for a log that compaction makes; this object makes no log with it.

        A restart may use the id again if there is no file with it.
        """
        self._last_id += 1
        return self._last_id

    def open(self, last_log_id: int) -> None:
        """Continue after the logs in the directory and after ``last_log_id``, the highest known.

        Raises:
            OSError: the directory cannot be made or read.
        """
        self._files.make_dirs(self._directory)
        self._files.sync_dir(self._directory)  # their names must outlive a loss of power
        self._log_id = max([last_log_id, *log_ids(self._files, self._directory)])
        self._last_id = self._log_id

    def append(self, batches: Sequence[EntryBatch]) -> list[int]:
        """Write batches in one write; return the location of each one's first entry.

        Raises:
            NoSpaceError: none of them was appended, and nothing else has changed.
            StorageFailedError: the write failed, or anything failed before.
        """
        self._fail_stop.check()
        size = sum([len(batch.body) for batch in batches]) + BLOCK_HEADER_SIZE * len(batches)
        file = self._file
        if file is None or self._offset + size > self._log_size_max:
            file = self._next_log()
        buffers: list[Buffer] = []
        bases = []
        offset = self._offset
        sizes = self._size_by_ledger
        for batch in batches:
            buffers += (encode_block_header(batch, self._seed), batch.body)
            bases.append(location_of(self._log_id, offset + BLOCK_HEADER_SIZE))
            offset += BLOCK_HEADER_SIZE + len(batch.body)
        self._write(file, buffers, self._offset)
        self._offset = offset
        self._written = (self._log_id, offset)
        if offset - self._reported_offset >= self._ahead_size:
            self._reported_offset = offset
            self.on_grown()
        for batch in batches:
            sizes[batch.ledger_id] = sizes.get(batch.ledger_id, 0) + len(batch.body)
        return bases

    def least_sizes(self) -> dict[int, int]:
        """Return the bytes of each log sealed since the start, and 0 for the current one.

        These bytes are on stable storage when the next ``begin_sync`` has run.
        """
        return self._sealed_sizes | ({} if self._file is None else {self._log_id: 0})

    def begin_sync(self) -> LogSync:
        """Return a sync of everything appended up to now, for the caller to run."""
        left, self._left = self._left, []
        current = self._file if self._is_dirty else None
        directory = self._directory if self._is_name_new else None
        self._is_dirty = self._is_name_new = False
        before = [one for one in self._begun if not one.is_done]
        sync = LogSync(self._files, directory, left, current, self._fail_stop, before)
        self._begun = [*before, sync]
        return sync

    def sync(self) -> None:
        """Return when everything appended up to now is on stable storage.

        Raises:
            StorageFailedError: an fsync failed, or anything failed before.
        """
        self.begin_sync().run()

    def sync_ahead(self) -> None:
        """Sync much of the current log in advance. Promises nothing.

        ``begin_sync`` makes the promise, and has less to wait for after this.

        Raises:
            StorageFailedError: the fsync failed, or anything failed before.
        """
        log_id, offset = written = self._written
        before = self._ahead[1] if self._ahead[0] == log_id else 0
        if offset - before < self._ahead_size:
            return
        self._fail_stop.check()
        path = log_path(self._directory, log_id)
        try:
            with self._open_files.use(path) as file:
                file.sync()
        except FsyncError as error:
            raise self._fail_stop.failed(path, "fsync", error) from error
        except (OSError, OutOfDescriptorsError):
            return  # it cannot be opened; ``begin_sync`` has it open
        self._ahead = written

    def read(self, location: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``location`` on; fewer only at the end of the log.

        Raises:
            OSError: the log is missing or cannot be read.
        """
        log_id, offset = split_location(location)
        with self._open_files.use(log_path(self._directory, log_id)) as file:
            return file.pread(size, offset)

    def exists(self, location: int) -> bool:
        """Return whether the log of a location exists."""
        return self._files.exists(log_path(self._directory, split_location(location)[0]))

    def remove(self, log_id: int) -> None:
        """Delete a log that the index does not point at.

        Raises:
            StorageFailedError: it cannot be deleted, or anything failed before.
        """
        assert log_id != self._log_id or self._file is None, "the log is being written"
        self._fail_stop.check()
        path = log_path(self._directory, log_id)
        try:
            with self._fail_stop.guard(path, "remove"):
                self._files.remove(path)
                self._files.sync_dir(self._directory)
        finally:
            self._sealed_sizes.pop(log_id, None)
            # last: a read that opened it before it was removed would keep its bytes on the disk
            self._open_files.forget(path)

    def close(self) -> None:
        """Close the files without a sync."""
        for file in [*self._left, self._file]:
            if file is not None:
                file.close()
        self._left, self._file = [], None

    def _next_log(self) -> File:
        if self._file is not None:
            seal = encode_map(self._size_by_ledger, self._offset, self._seed)
            self._write(self._file, [seal], self._offset)
            self._sealed_sizes[self._log_id] = self._offset + len(seal)
            self._left.append(self._file)
            self._file = None
        log_id = self._last_id + 1
        path = log_path(self._directory, log_id)
        self._written = (log_id, 0)  # first: a scrub that lists it must not count it as complete
        with self._fail_stop.guard(path, "create"):
            file = self._files.open(path, create=True)
            try:
                file.pwrite([encode_log_header(self._owner, log_id)], 0)
            except OSError:
                file.close()
                self._files.remove(path)  # it is empty, and the next log has its id
                raise
        self._file = file
        self._log_id = self._last_id = log_id
        self._seed = log_seed(self._owner, log_id)
        self._offset = self._reported_offset = LOG_HEADER_SIZE
        self._size_by_ledger = {}
        self._is_dirty = self._is_name_new = True
        return file

    def _write(self, file: File, buffers: list[Buffer], offset: int) -> None:
        self._is_dirty = True
        try:
            with self._fail_stop.guard(file.path, "write"):
                file.pwrite(buffers, offset)
        except NoSpaceError:
            with self._fail_stop.guard(file.path, "truncate"):
                file.truncate(offset)  # the index does not point at these bytes
            raise
