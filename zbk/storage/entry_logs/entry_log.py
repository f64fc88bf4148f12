"""Entry logs: the bytes of a bookie's entries in order of arrival, in shared and own logs.

Threads:
    owner  ``append``, ``begin_sync``, ``sync``, ``begin_mark``, ``end_own``, ``close``, ``take_id``
    any    ``read``; ``exists``; ``remove``; ``open_sizes``; ``left``; ``is_own_of``;
           ``marked``; ``LogSync.run``
    one    ``sync_ahead``

The entries of all ledgers go to one log, the *shared* one, interleaved; those of some ledgers go to
a log of their own (``zbk.storage.entry_logs.own_logs``). The batches of one log in one list are one
gathered write to the page cache; a read sees it at once. A full log is sealed with a map of its
ledgers, and the next one begins. A restart begins new logs, too: the bookie never writes after
bytes that may not have reached the disk.

The index may point at an entry on disk only after ``begin_sync`` and ``run``: the writer of
index pages calls these first.

Format: ``zbk.storage.entry_logs.format``. Source: BookKeeper's ``DefaultEntryLogger`` and
``EntryLogManagerForEntryLogPerLedger``.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from zbk.errors import NoSpaceError, OutOfDescriptorsError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.format import BLOCK_HEADER_SIZE, LOG_HEADER_SIZE
from zbk.storage.entry_logs.left_logs import LeftLogs, LogsAtMark
from zbk.storage.entry_logs.location import OFFSET_MAX, split_location
from zbk.storage.entry_logs.log_sync import FileSync, LogSync
from zbk.storage.entry_logs.open_log import OpenLog
from zbk.storage.entry_logs.own_logs import (
    DEFAULT_OWN_LOGS,
    SHARED_LOG,
    OwnLogLimits,
    OwnLogs,
)
from zbk.system.files import FileSystem, FsyncError

LOG_SIZE: Final = 1024 * 1024 * 1024
"""Bytes at which a log is complete."""

AHEAD_SIZE: Final = 2 * 1024 * 1024
"""Bytes of an open log that may be in the page cache only, roughly.

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
        own_logs: OwnLogLimits = DEFAULT_OWN_LOGS,
    ) -> None:
        assert LOG_HEADER_SIZE < log_size_max <= OFFSET_MAX // 4, "a location has to hold offsets"
        self._files = files
        self._directory = directory
        self._owner = owner
        self._open_files = open_files
        self._fail_stop = fail_stop
        self._log_size_max = log_size_max
        self._ahead_size = ahead_size
        self.on_grown: Callable[[], None] = lambda: None  # called when ``sync_ahead`` has work
        self.on_made: Callable[[int, int], None] = lambda _log_id, _ledger_id: None
        """Called with a new log and its ledger, or ``SHARED_LOG``, before anything is added."""
        self._log_id = 0  # the highest that adds went to
        self._last_id = 0  # the highest id used, also by compaction
        self._sealed_sizes: dict[int, int] = {}  # of the logs since the start
        self._open: dict[int, OpenLog] = {}  # that batches go to, by ledger; or ``SHARED_LOG``
        self._unsynced: dict[int, OpenLog] = {}  # by log, open or not; some are synced meanwhile
        self._ended: deque[FileSync] = deque()  # of own logs that are complete
        self._own = OwnLogs(own_logs)
        self._own_limits = own_logs
        self._ledger_of: dict[int, int] = {}  # by own log, since the start
        self._made_count = 0  # of files, about: with those that compaction meant to make
        self._removed_count = 0
        self.left = LeftLogs()

    @property
    def last_log_id(self) -> int:
        """The highest id of a log that adds went to; 0 before the first."""
        return self._log_id

    def open_sizes(self) -> dict[int, int]:
        """Return the bytes written to each open log. Any thread.

        With 0 bytes the log may exist, even without its header. Any other log that was listed
        before this call is complete.
        """
        return {log.log_id: log.offset for log in list(self._open.values())}

    @property
    def log_size_max(self) -> int:
        """Bytes at which a log is complete."""
        return self._log_size_max

    def take_id(self) -> int:
        """Return an id for a log that compaction makes; this object makes no log with it.

        A restart may use the id again if there is no file with it.
        """
        self._last_id += 1
        self._made_count += 1
        self._drop_unmade(self._last_id)
        return self._last_id

    def open(self, last_log_id: int) -> None:
        """Continue after the logs in the directory and after ``last_log_id``, the highest known.

        Raises:
            OSError: the directory cannot be made or read.
        """
        self._files.make_dirs(self._directory)
        self._files.sync_dir(self._directory)  # their names must outlive a loss of power
        found = log_ids(self._files, self._directory)
        self._log_id = self._last_id = max([last_log_id, *found])
        self._made_count = len(found)

    # ------------------------------------------------------------------ adds

    def append(
        self, batches: Sequence[EntryBatch], bypass_ids: Collection[int] = ()
    ) -> Sequence[int]:
        """Write batches, one write for each log; return the location of each one's first entry.

        ``bypass_ids``: the ledgers whose batches bypass the journal.

        Raises:
            NoSpaceError: none of them was appended, and nothing else has changed.
            StorageFailedError: a write failed, or anything failed before.
        """
        self._fail_stop.check()
        own_ids = self._own_limits.candidates(batches, bypass_ids)
        if not own_ids:
            return self._append_to(SHARED_LOG, batches)
        new_ids: set[int] = set()  # of ledgers whose own logs are still to be made
        logs_of = [self._log_of(batch, own_ids, new_ids) for batch in batches]
        for ledger_id in self._own.surplus():  # nothing would complete a new log of these
            self._complete(ledger_id)
        groups: dict[int, list[int]] = {}
        for at, ledger_id in enumerate(logs_of):
            groups.setdefault(ledger_id if ledger_id in self._own else SHARED_LOG, []).append(at)
        if len(groups) == 1:
            return self._append_to(next(iter(groups)), batches)
        return self._append_apart(batches, groups)

    def is_own(self, log_id: int) -> bool:
        """Return whether a log, made since the start, holds one ledger."""
        return log_id in self._ledger_of

    def own_log_of(self, ledger_id: int) -> int | None:
        """Return the id of a ledger's own log that is open. Any thread."""
        log = self._open.get(ledger_id)
        return None if log is None or not log.offset else log.log_id

    def end_own(self, ledger_ids: Iterable[int]) -> None:
        """Complete the own logs of ledgers that were deleted: nothing is added to them."""
        for ledger_id in ledger_ids:
            self._own.forget(ledger_id)
            self._complete(ledger_id)

    # ------------------------------------------------------------------ syncs

    def begin_sync(self, log_ids: Collection[int] | None = None) -> LogSync:
        """Return a sync of everything appended up to now, for the caller to run.

        ``log_ids``: only to these logs.
        """
        self._drop_synced()
        chosen = [one for one in self._unsynced if log_ids is None or one in log_ids]
        parts = [self._unsynced[one].begin_sync() for one in chosen]
        return LogSync([part for part in parts if part is not None], self._fail_stop)

    def sync(self) -> None:
        """Return when everything appended up to now is on stable storage.

        Raises:
            StorageFailedError: an fsync failed, or anything failed before.
        """
        self.begin_sync().run()

    def sync_ahead(self) -> None:
        """Sync much of the open logs, and completed own logs, in advance. Promises nothing.

        ``begin_sync`` makes the promise, and has less to wait for after this.

        Raises:
            StorageFailedError: the fsync failed, or anything failed before.
        """
        for log in list(self._open.values()):
            offset = log.offset
            if offset - log.ahead_offset < self._ahead_size:
                continue
            self._fail_stop.check()
            try:
                with self._open_files.use(log.path) as file:
                    file.sync()
            except FsyncError as error:
                raise self._fail_stop.failed(log.path, "fsync", error) from error
            except (OSError, OutOfDescriptorsError):
                continue  # it cannot be opened; ``begin_sync`` has it open
            log.ahead_offset = offset
        with suppress(OutOfDescriptorsError):
            while self._ended:
                self._ended[0].run()
                self._ended.popleft()

    # ------------------------------------------------------------------ checkpoints and removal

    def begin_mark(self) -> LogsAtMark:
        """Return the logs that a last mark may cover, once the next ``begin_sync`` has run."""
        sizes = {log_id: size for log_id, size in self.open_sizes().items() if size}
        shared = self._open.get(SHARED_LOG)
        last_size = 0
        if shared is not None and shared.log_id == self._log_id and shared.offset:
            last_size, sizes[self._log_id] = shared.offset, 0
        sizes = {log_id: size for log_id, size in sizes.items() if log_id <= self._log_id}
        return LogsAtMark(self._log_id, last_size, self._sealed_sizes | sizes, frozenset(sizes))

    def marked(self, at: LogsAtMark) -> None:
        """Record that a last mark covers these logs."""
        self.left = self.left.marked(at)

    def is_own_of(self, log_id: int, ledger_ids: LedgerRanges) -> bool:
        """Return whether a log is complete, and has entries of one of these ledgers only."""
        ledger_id = self._ledger_of.get(log_id)
        if ledger_id is None or ledger_id not in ledger_ids:
            return False
        return self.own_log_of(ledger_id) != log_id

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

    def remove(self, removed_ids: Collection[int]) -> None:
        """Delete logs that the index does not point at.

        Raises:
            StorageFailedError: one cannot be deleted, or anything failed before.
        """
        assert not set(removed_ids) & self.open_sizes().keys(), "a log is being written"
        self._fail_stop.check()
        paths = [log_path(self._directory, log_id) for log_id in removed_ids]
        try:
            for path in paths:
                with self._fail_stop.guard(path, "remove"):
                    self._files.remove(path)
                self._removed_count += 1
            with self._fail_stop.guard(self._directory, "fsync"):
                self._files.sync_dir(self._directory)
        finally:
            for log_id, path in zip(removed_ids, paths, strict=True):
                self._sealed_sizes.pop(log_id, None)
                self._ledger_of.pop(log_id, None)
                # last: a read that opened it before it was removed would keep its bytes on the disk
                self._open_files.forget(path)

    def close(self) -> None:
        """Close the files without a sync."""
        for log in self._unsynced.values():  # among them all that are open
            log.close()
        self._unsynced, self._open = {}, {}

    # ------------------------------------------------------------------ private

    def _log_of(self, batch: EntryBatch, own_ids: Collection[int], new_ids: set[int]) -> int:
        """Return the ledger whose own log a batch goes to, or ``SHARED_LOG``."""
        ledger_id = batch.ledger_id
        if ledger_id not in own_ids:
            return SHARED_LOG
        shared = self._open.get(SHARED_LOG)
        before = 0 if shared is None else shared.size_by_ledger.get(ledger_id, 0)
        is_made = ledger_id in self._open
        has_room = is_made or self._has_room(len(new_ids))
        if not self._own.admit(ledger_id, before + len(batch.body), has_room=has_room):
            return SHARED_LOG
        if not is_made:
            new_ids.add(ledger_id)
        return ledger_id

    def _has_room(self, new_count: int) -> bool:
        """Return whether one more own log may be made, with ``new_count`` still to be made."""
        if len(self._unsynced) + new_count > self._own_limits.unsynced_max:
            self._drop_synced()
        file_count = self._made_count - self._removed_count
        return self._own_limits.has_room(len(self._unsynced), file_count, new_count)

    def _drop_synced(self) -> None:
        self._unsynced = {
            log_id: log for log_id, log in self._unsynced.items() if not log.is_synced
        }

    def _append_apart(
        self, batches: Sequence[EntryBatch], groups: Mapping[int, Sequence[int]]
    ) -> list[int]:
        """Write batches to several logs; ``groups`` has the places of batches, by log."""
        bases = [0] * len(batches)
        written: list[tuple[OpenLog, list[EntryBatch]]] = []
        for ledger_id, places in groups.items():
            some = [batches[at] for at in places]
            try:
                found = self._append_to(ledger_id, some)
            except NoSpaceError:
                for log, its_batches in written:
                    log.take_back(its_batches)
                raise
            written.append((self._open[ledger_id], some))
            for at, base in zip(places, found, strict=True):
                bases[at] = base
        return bases

    def _append_to(self, ledger_id: int, batches: Sequence[EntryBatch]) -> list[int]:
        size = sum([len(batch.body) for batch in batches]) + BLOCK_HEADER_SIZE * len(batches)
        log = self._open.get(ledger_id)
        if log is None or not log.offset or log.offset + size > self._log_size_max:
            log = self._next_log(ledger_id)
        bases = log.append(batches)
        if log.offset - log.reported_offset >= self._ahead_size:
            log.reported_offset = log.offset
            self.on_grown()
        return bases

    def _next_log(self, ledger_id: int) -> OpenLog:
        full = self._open.get(ledger_id)
        if full is not None and full.offset:
            self._sealed_sizes[full.log_id] = full.seal()
        log_id = self._last_id + 1
        path = log_path(self._directory, log_id)
        log = OpenLog(self._files, self._directory, path, log_id, self._fail_stop)
        self._open[ledger_id] = log  # first: a scrub that lists it must not count it as complete
        self._drop_unmade(log_id, but=ledger_id)
        log.create(self._owner, lambda: self.on_made(log_id, ledger_id))
        self._log_id = self._last_id = log_id
        self._made_count += 1
        self._unsynced[log_id] = log
        if ledger_id != SHARED_LOG:
            self._ledger_of[log_id] = ledger_id
        return log

    def _drop_unmade(self, log_id: int, but: int | None = None) -> None:
        """Forget a log that could not be made: its id is another's now, of the ledger ``but``."""
        others = [one for one, log in self._open.items() if log.log_id == log_id and one != but]
        for one in others:
            del self._open[one]

    def _complete(self, ledger_id: int) -> None:
        """Seal the own log of a ledger, if it is open."""
        log = self._open.get(ledger_id)
        if log is None:
            return
        if log.offset:
            size = log.offset
            with suppress(NoSpaceError):  # it is complete without a map, as after a crash
                size = log.seal()
            log.is_full = True
            self._sealed_sizes[log.log_id] = size
            sync = log.begin_sync()
            assert sync is not None, "it has a new map"
            self._ended.append(sync)
            self.on_grown()
        del self._open[ledger_id]
