"""Writing changed headers and pages to the index files, so that no crash tears them.

A page on disk has locations of entries that left the journal long ago. If a crash tore it in the
middle of a write, they would be lost. So each flush takes these steps, in this order:

    sync_entry_logs  the index must not point at bytes that are not on stable storage
    write            index files of new ledgers are written under another name, synced, renamed,
                     and their directories synced; changes of other files go into the flush file,
                     which is synced
    apply            these changes are written in place, and each file is synced

``TOGETHER_MIN`` files or more are synced together, if the operating system can do that and report
every failure: twenty thousand fsyncs take a busy disk a minute, in which promises wait.

After a crash in ``apply`` the flush file is whole, and ``IndexFlusher.recover`` applies it again.
It may find one that only the page cache has, and puts it on stable storage first. After an earlier
crash the files are unchanged. The log mark moves only after ``apply``, so the journal still has all
records of an unfinished flush.

``write`` and ``apply`` work in rounds of about ``ROUND_SIZE`` bytes, a whole ledger in one round,
so neither memory nor the flush file grows with the number of ledgers. ``write`` puts the first
round into the flush file; ``apply`` puts it into place, and does both for the other rounds. After
each round everything is as after a flush of fewer ledgers.

A step that found no space may be repeated, and begins with its round again: the second write is the
same.

A flush never restores a ledger that is deleted while it runs.

Threads: ``IndexFlusher.begin``, ``delete`` and ``recover`` belong to the owner; the steps of an
``IndexFlush`` may run in any thread, in order, each once.

Source: InnoDB's doublewrite buffer; BookKeeper's ``IndexPersistenceMgr`` and BOOKKEEPER-447, #1757.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from threading import Lock
from typing import Final

from zbk.errors import NoSpaceError
from zbk.storage.disk.byte_order import locations_from_disk
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.entry_logs.log_sync import LogSync
from zbk.storage.index.census import Census
from zbk.storage.index.flush_file import FlushFile, Part
from zbk.storage.index.index_change import LedgerChange, locations_reader
from zbk.storage.index.index_file import NEW_SUFFIX, IndexPath
from zbk.system.files import File, FileSystem

ROUND_SIZE: Final = 8 * 1024 * 1024
"""Bytes in the flush file at once; one more ledger may come on top."""

TOGETHER_MIN: Final = 32
"""Index files from which on a flush syncs their whole disk."""

NEW_COUNT_MAX: Final = 1_000
"""New files that are written and not renamed yet."""


class IndexFlush:
    """One flush under way.

    Raises:
        NoSpaceError: from each step: it may be taken again.
        StorageFailedError: from each step: writing failed, or anything failed before.
    """

    def __init__(
        self, flusher: "IndexFlusher", changes: Sequence[LedgerChange], log_sync: LogSync
    ) -> None:
        self._flusher = flusher
        self._new = [one for one in changes if one.is_new]
        self._old = [one for one in changes if not one.is_new]
        self.ledger_count = len(changes)
        self._log_sync = log_sync
        self._lock = Lock()
        self._parts: list[Part] = []  # in the flush file, and not in place yet
        self._pages: dict[tuple[int, int], Part] = {}  # of these, by ledger and page
        self._begun_count = 0  # of the old ones: in the flush file, or in their places
        self._step_count = 0

    def sync_entry_logs(self) -> None:
        """Put every entry in the index on stable storage."""
        self._log_sync.run()
        with self._lock:
            self._step_count = max(self._step_count, 1)

    def write(self) -> None:
        """Make the files of new ledgers, and write and sync the flush file."""
        with self._lock:
            assert self._step_count >= 1, "entries first, then what points at them"
            if self._step_count == 1:
                self._flusher.make_new(self._new)
                self._write_round()
                self._new = []
                self._step_count = 2

    def apply(self) -> None:
        """Write the changes in place and sync them; then all other rounds."""
        with self._lock:
            assert self._step_count >= 2, "the flush file first, then the places"
            if self._step_count == 2:
                while self._parts or self._begun_count < len(self._old):
                    if not self._parts:
                        self._write_round()
                    self._flusher.write_in_place(self._parts)
                    self._parts, self._pages = [], {}
                self._old = []
                self._step_count = 3

    def run(self) -> None:
        """Run all steps that are left."""
        self.sync_entry_logs()
        self.write()
        self.apply()

    def page(self, ledger_id: int, page_no: int) -> "array[int] | None":
        """Return the locations of a page of this round, whose place may be half written.

        The caller holds the ``place_lock``. ``None``: the file has the whole page.
        """
        part = self._pages.get((ledger_id, page_no))
        return None if part is None else locations_from_disk(memoryview(part.data))

    def _write_round(self) -> None:
        end, size = self._begun_count, 0
        while end < len(self._old) and size < ROUND_SIZE:
            size += self._old[end].size
            end += 1
        parts = self._flusher.parts_of(self._old[self._begun_count : end])
        self._flusher.write_flush_file(parts)
        self._pages = {(one.ledger_id, one.page_no): one for one in parts}
        self._parts, self._begun_count = parts, end


class IndexFlusher:
    """Writes the index files below ``root``; the flush file lies in ``directory``."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        root: str,
        *,
        fail_stop: FailStop,
        census: Census,
    ) -> None:
        self._files = files
        self._census = census
        self._root = root
        self._flush_file = FlushFile(files, directory)
        self._fail_stop = fail_stop
        self.place_lock = Lock()  # while a page or header is written in place
        self._names_lock = Lock()  # while a file is named, opened for writing, or deleted
        self._deleted: set[int] = set()  # since the flush under way began
        self._has_deleted = False  # since the flush file was last written

    def begin(self, changes: Sequence[LedgerChange], log_sync: LogSync) -> IndexFlush:
        """Return a flush of these changes; the one before must have ended."""
        self._fail_stop.check()
        self._deleted = set()
        return IndexFlush(self, changes, log_sync)

    def delete(self, ledger_ids: Iterable[int]) -> set[int]:
        """Remove the index files of ledgers, durably; a flush under way skips them from now on.

        Return which of the ledgers had one.

        Raises:
            StorageFailedError: one cannot be removed, or anything failed before.
        """
        self._fail_stop.check()
        with_file = set()
        directories = set()
        ledger_ids = list(ledger_ids)
        for ledger_id in ledger_ids:
            place = IndexPath.of(self._root, ledger_id)
            with self._fail_stop.guard(place.path, "remove"), self._names_lock:
                self._deleted.add(ledger_id)
                self._has_deleted = True
                if self._files.exists(place.path):
                    self._files.remove(place.path)
                    directories.add(place.directory)
                    with_file.add(ledger_id)
        for directory in sorted(directories):
            with self._fail_stop.guard(directory, "fsync"):
                self._files.sync_dir(directory)
        with self._names_lock:
            self._census.unnamed(ledger_ids)
        return with_file

    def recover(self) -> int:
        """Apply an interrupted flush; return the number of files that it touched.

        Raises:
            StorageFailedError: reading or writing failed.
        """
        with self._fail_stop.guard(self._flush_file.path, "recovery"):
            found = self._flush_file.read()
            here = [
                (ledger_id, parts)
                for ledger_id, parts in found
                if self._files.exists(IndexPath.of(self._root, ledger_id).path)
            ]
            if len(here) < len(found):
                self._has_deleted = True
            if found:
                # it may be in the page cache only: after a loss of power in between, the next
                # start would find torn pages, and no flush or the one before it
                self._flush_file.make_durable()
            self._write_all(here, "recovery")
            if found:
                self._flush_file.retire()  # no later start applies it again
        return len(here)

    # ------------------------------------------------------------------ steps of IndexFlush

    def make_new(self, changes: Sequence[LedgerChange]) -> None:
        """Make new index files, which are whole before they get their names."""
        self._fail_stop.check()
        if self._has_deleted:
            self._has_deleted = False  # first: a delete from here on is for the next flush
            try:
                with self._fail_stop.guard(self._flush_file.path, "write"):
                    self._flush_file.retire()
            except NoSpaceError:
                self._has_deleted = True
                raise
        step = NEW_COUNT_MAX if len(changes) >= TOGETHER_MIN else 1
        for start in range(0, len(changes), step):
            self._make_some(changes[start : start + step])
        places = (IndexPath.of(self._root, change.ledger_id) for change in changes)
        for directory in sorted({place.directory for place in places}):
            with self._fail_stop.guard(directory, "fsync"):
                self._files.sync_dir(directory)
        with self._names_lock:
            named = (change.ledger_id for change in changes)
            self._census.named([one for one in named if one not in self._deleted])

    def parts_of(self, changes: Iterable[LedgerChange]) -> list[Part]:
        """Return the parts to write of ledgers with files, without deleted ledgers."""
        self._fail_stop.check()
        parts: list[Part] = []
        for change in changes:
            with self._names_lock:
                is_deleted = change.ledger_id in self._deleted
            if is_deleted:
                continue
            if not any(page.start for page in change.pages):
                parts += change.parts()
                continue
            path = IndexPath.of(self._root, change.ledger_id).path
            file = self._open(change.ledger_id, path, write=False)
            if file is not None:
                with closing(file):
                    parts += change.parts(locations_reader(file))
        return parts

    def write_flush_file(self, parts: Sequence[Part]) -> None:
        """Put the parts on stable storage, in the flush file."""
        self._fail_stop.check()
        if parts:
            with self._fail_stop.guard(self._flush_file.path, "write"):
                self._flush_file.write(parts)

    def write_in_place(self, parts: Sequence[Part]) -> None:
        """Put the parts on stable storage, each in its index file."""
        self._fail_stop.check()
        by_ledger: dict[int, list[Part]] = {}
        for part in parts:
            by_ledger.setdefault(part.ledger_id, []).append(part)
        self._write_all(by_ledger.items(), "write")

    # ------------------------------------------------------------------ private

    def _make_some(self, changes: Sequence[LedgerChange]) -> None:
        """Make new files, and name them when all are whole."""
        unnamed: list[tuple[int, str]] = []
        try:
            with self._synced(len(changes)) as is_each_synced:
                for change in changes:
                    place = IndexPath.of(self._root, change.ledger_id)
                    unnamed.append((change.ledger_id, place.path))
                    with self._fail_stop.guard(place.path, "create"):
                        self._files.make_dirs(place.directory)
                        self._make_one(place.path + NEW_SUFFIX, change, is_synced=is_each_synced)
            while unnamed:
                with self._fail_stop.guard(unnamed[-1][1], "create"):
                    self._name(*unnamed[-1])
                unnamed.pop()
        except NoSpaceError:
            for _, path in unnamed:  # they take room, and the next attempt needs their names
                with self._fail_stop.guard(path, "remove"):
                    if self._files.exists(path + NEW_SUFFIX):
                        self._files.remove(path + NEW_SUFFIX)
            raise

    def _make_one(self, path: str, change: LedgerChange, *, is_synced: bool) -> None:
        with closing(self._files.open(path, create=True)) as file:
            for part in change.parts():
                part.write_to(file)
            if is_synced:
                file.sync()

    def _name(self, ledger_id: int, path: str) -> None:
        with self._names_lock:
            if ledger_id in self._deleted:
                self._files.remove(path + NEW_SUFFIX)
            else:
                self._files.rename(path + NEW_SUFFIX, path)

    def _write_all(self, parts: Collection[tuple[int, Iterable[Part]]], operation: str) -> None:
        """Write parts in place, by ledger, and sync them."""
        with self._synced(len(parts)) as is_each_synced:
            for ledger_id, own in parts:
                path = IndexPath.of(self._root, ledger_id).path
                with self._fail_stop.guard(path, operation):
                    self._write_one(ledger_id, path, own, is_synced=is_each_synced)

    @contextmanager
    def _synced(self, count: int) -> Iterator[bool]:
        """Yield whether to sync each of so many files; otherwise the disk is synced at the end."""
        disk = None
        if count >= TOGETHER_MIN:
            with self._fail_stop.guard(self._root, "open"):
                disk = self._files.open_disk(self._root)  # before the writes, to get their errors
        if disk is None:
            yield True
            return
        with closing(disk):
            yield False
            with self._fail_stop.guard(self._root, "fsync"):
                disk.sync()

    def _open(self, ledger_id: int, path: str, *, write: bool) -> File | None:
        """Return a ledger's file, or ``None`` if the ledger was deleted since the flush began."""
        with self._fail_stop.guard(path, "open"), self._names_lock:
            return None if ledger_id in self._deleted else self._files.open(path, write=write)

    def _write_one(
        self, ledger_id: int, path: str, parts: Iterable[Part], *, is_synced: bool
    ) -> None:
        file = self._open(ledger_id, path, write=True)
        if file is None:
            return
        with closing(file):
            for part in parts:
                with self.place_lock:
                    part.write_to(file)
            if is_synced:
                file.sync()
