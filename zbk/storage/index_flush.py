"""Bringing changed headers and pages to the index files, so that no crash tears them.

A page on disk holds locations of entries that left the journal long ago; torn by a crash in the
middle of a write, they could not be had back. So each flush takes these steps, in this order:

    sync_entry_logs  nothing in the index may point at bytes that are not on stable storage
    write            index files of new ledgers are written under another name, synced, renamed
                     into place, their directories synced; what changes in the others goes into
                     the flush file, which is synced
    apply            the same is written in place, and each file synced

After a crash in ``apply`` the flush file is whole and ``IndexFlusher.recover`` does it again;
after an earlier crash the files are as they were. The log mark moves only after ``apply``, so the
journal still has whatever a flush did not bring over.

A step that found no space may be taken again, and begins from its start: nothing that counts has
changed, and what is written twice is the same.

A flush never brings back a ledger that is deleted while it runs.

Threads: ``IndexFlusher.begin``, ``delete`` and ``recover`` belong to the owner; the steps of an
``IndexFlush`` may run in any thread, in order, each once whoever asks.

Source: InnoDB's doublewrite buffer; BookKeeper's ``IndexPersistenceMgr`` and BOOKKEEPER-447, #1757.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

import msgspec

from zbk.errors import NoSpaceError
from zbk.storage.entry_log import LogSync
from zbk.storage.fail_stop import FailStop
from zbk.storage.flush_file import FlushFile, Part
from zbk.storage.index_file import NEW_SUFFIX, IndexPath
from zbk.system.files import FileSystem, is_no_space


class LedgerChange(msgspec.Struct, frozen=True):
    """What a flush brings to one index file."""

    ledger_id: int
    is_new: bool  # there is no file yet
    header: bytes
    pages: Sequence[tuple[int, memoryview]]  # page number and locations as they lie on disk

    def parts(self) -> Iterator[Part]:
        """Return what is to be written: pages, then the header that says that they are there."""
        for page_no, locations in self.pages:
            yield Part.of_page(self.ledger_id, page_no, locations)
        yield Part.of_header(self.ledger_id, self.header)


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
        self._changes = changes
        self._log_sync = log_sync
        self._lock = Lock()
        self._parts: list[Part] = []
        self._step_count = 0

    def sync_entry_logs(self) -> None:
        """Return once every entry that the index knows is on stable storage."""
        self._log_sync.run()
        with self._lock:
            self._step_count = max(self._step_count, 1)

    def write(self) -> None:
        """Make the files of new ledgers, and write and sync the flush file."""
        with self._lock:
            assert self._step_count >= 1, "entries first, then what points at them"
            if self._step_count == 1:
                self._flusher.make_new([c for c in self._changes if c.is_new])
                self._parts = [p for c in self._changes if not c.is_new for p in c.parts()]
                self._flusher.write_flush_file(self._parts)
                self._step_count = 2

    def apply(self) -> None:
        """Write the changes in place and sync them."""
        with self._lock:
            assert self._step_count >= 2, "the flush file first, then the places"
            if self._step_count == 2:
                self._flusher.write_in_place(self._parts)
                self._parts = []
                self._step_count = 3

    def run(self) -> None:
        """Take all steps that have not been taken."""
        self.sync_entry_logs()
        self.write()
        self.apply()


class IndexFlusher:
    """Writes the index files below ``root``; the flush file lies in ``directory``."""

    def __init__(
        self, files: FileSystem, directory: str, root: str, *, fail_stop: FailStop
    ) -> None:
        self._files = files
        self._root = root
        self._flush_file = FlushFile(files, directory)
        self._fail_stop = fail_stop
        self._names_lock = Lock()  # a name is made, or opened to be written, or deleted
        self._deleted: set[int] = set()  # since the flush under way began
        self._has_deleted = False  # since the flush file was last written

    def begin(self, changes: Sequence[LedgerChange], log_sync: LogSync) -> IndexFlush:
        """Return a flush of these changes; the one before must have ended."""
        self._fail_stop.check()
        self._deleted = set()
        return IndexFlush(self, changes, log_sync)

    def delete(self, ledger_ids: Iterable[int]) -> set[int]:
        """Remove ledgers' index files, durably; a flush under way leaves them alone from now on.

        Return which of the ledgers had one.

        Raises:
            StorageFailedError: one can not be removed, or anything failed before.
        """
        self._fail_stop.check()
        with_file = set()
        directories = set()
        for ledger_id in ledger_ids:
            place = IndexPath.of(self._root, ledger_id)
            with self._failing(place.path, "remove"), self._names_lock:
                self._deleted.add(ledger_id)
                self._has_deleted = True
                if self._files.exists(place.path):
                    self._files.remove(place.path)
                    directories.add(place.directory)
                    with_file.add(ledger_id)
        for directory in sorted(directories):
            with self._failing(directory, "fsync"):
                self._files.sync_dir(directory)
        return with_file

    def recover(self) -> int:
        """Carry out a flush that a crash cut short; return how many files it touched.

        Raises:
            StorageFailedError: reading or writing failed.
        """
        touched_count = 0
        with self._failing(self._flush_file.path, "recovery"):
            found = self._flush_file.read()
            for ledger_id, parts in found:
                if self._files.exists(IndexPath.of(self._root, ledger_id).path):
                    self._write_one(ledger_id, parts)
                    touched_count += 1
                else:
                    self._has_deleted = True
            if found:
                # what was read may be in the page cache only: a loss of power would bring back the
                # flush before, and the start after it would put old pages over newer ones
                self._flush_file.retire()
        return touched_count

    # ------------------------------------------------------------------ steps of IndexFlush

    def make_new(self, changes: Iterable[LedgerChange]) -> None:
        """Make index files that are whole before they have their names."""
        self._fail_stop.check()
        if self._has_deleted:
            self._has_deleted = False  # first: a delete from here on is for the next flush
            try:
                with self._failing(self._flush_file.path, "write"):
                    self._flush_file.retire()
            except NoSpaceError:
                self._has_deleted = True
                raise
        directories = set()
        for change in changes:
            place = IndexPath.of(self._root, change.ledger_id)
            with self._failing(place.path, "create"):
                self._make_one(place, change)
            directories.add(place.directory)
        for directory in sorted(directories):
            with self._failing(directory, "fsync"):
                self._files.sync_dir(directory)

    def write_flush_file(self, parts: Sequence[Part]) -> None:
        """Have the parts on stable storage, in the flush file."""
        self._fail_stop.check()
        if parts:
            with self._failing(self._flush_file.path, "write"):
                self._flush_file.write(parts)

    def write_in_place(self, parts: Sequence[Part]) -> None:
        """Have the parts on stable storage, each in its index file."""
        self._fail_stop.check()
        by_ledger: dict[int, list[Part]] = {}
        for part in parts:
            by_ledger.setdefault(part.ledger_id, []).append(part)
        for ledger_id, own in by_ledger.items():
            with self._failing(IndexPath.of(self._root, ledger_id).path, "write"):
                self._write_one(ledger_id, own)

    # ------------------------------------------------------------------ private

    def _make_one(self, place: IndexPath, change: LedgerChange) -> None:
        new_path = place.path + NEW_SUFFIX
        self._files.make_dirs(place.directory)
        file = self._files.open(new_path, create=True)
        try:
            for part in change.parts():
                part.write_to(file)
            file.sync()
            with self._names_lock:
                if change.ledger_id in self._deleted:
                    self._files.remove(new_path)
                else:
                    self._files.rename(new_path, place.path)
        except OSError as error:
            if is_no_space(error):
                self._files.remove(new_path)  # it has taken room, and the name is needed again
            raise
        finally:
            file.close()

    def _write_one(self, ledger_id: int, parts: Iterable[Part]) -> None:
        with self._names_lock:
            if ledger_id in self._deleted:
                return
            file = self._files.open(IndexPath.of(self._root, ledger_id).path)
        try:
            for part in parts:
                part.write_to(file)
            file.sync()
        finally:
            file.close()

    @contextmanager
    def _failing(self, path: str, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fail_stop.failed(path, operation, error) from error
