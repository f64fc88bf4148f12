"""Checks all files of a stopped bookie, and the locations in its index. Changes nothing.

    census     every index file and entry log in it exists, with its size
    new logs   every log that was noted since exists, if the bookie was killed in this boot
    journal    a start would accept each journal, and the lists of deleted ledgers
    logs       every block and every map passes its checksum; the tail of an unsealed log may be
               torn by a crash
    index      every header and every page passes its checksum, and each location has its entry

It checks all directories of the bookie in service.

Digests of entries are not verified: only clients know the keys.

Source: BookKeeper's ``SanityTestCommand``, ``LocalConsistencyCheckCommand``.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from zbk.errors import CorruptJournalError, CorruptRecordError, EntryUnreadableError
from zbk.storage.directory.lost_files import LostFiles
from zbk.storage.directory.lost_files import look as look_for_lost
from zbk.storage.directory.serving import was_killed
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.open_files import OPEN_FILES_MAX, OpenFiles
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.entry_reader import Resolved, fetch
from zbk.storage.entry_logs.location import ABSENT, split_location
from zbk.storage.entry_logs.new_logs import NewLogs
from zbk.storage.gc.compaction_note import CompactionNote
from zbk.storage.index.census import CENSUS_NAME
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.index.index_file import IndexPath, IndexReader, LedgerIndex, ledger_ids
from zbk.storage.index.index_page import PAGE_BITS
from zbk.storage.journal.last_mark import LastMark, LogMark, first_position
from zbk.storage.journal.replay import JournalReplay
from zbk.storage.tools.inspect_entry_log import EntryLogInspection
from zbk.storage.tools.inspect_index import IndexInspection
from zbk.storage.tools.inspection import Fault
from zbk.system.boot import boot_id
from zbk.system.files import FileSystem

READ_SIZE: Final = 4 * 1024 * 1024


class Problem(msgspec.Struct, frozen=True):
    """A problem, and its place."""

    path: str
    offset: int
    reason: str


class SanityCheck:
    """One check. The caller holds the locks of the directories.

    ``problems`` runs once, to its end; then the counts are complete.
    """

    def __init__(
        self,
        files: FileSystem,
        *,
        journal_dir: str | Sequence[str],
        ledger_dir: str | Sequence[str],
        bookie_id: str,
        out_of_service: Collection[str] = (),
        found_before: Sequence[Problem] = (),
    ) -> None:
        journal_dirs = (journal_dir,) if isinstance(journal_dir, str) else journal_dir
        ledger_dirs = (ledger_dir,) if isinstance(ledger_dir, str) else ledger_dir
        self._files = files
        self._journal_dirs = journal_dirs
        self._ledger_dirs = [path for path in ledger_dirs if path not in out_of_service]
        self.out_of_service = out_of_service
        self._bookie_id = bookie_id
        self._open_files = OpenFiles(files, OPEN_FILES_MAX)
        self._marks: list[LogMark | None] = []
        self.record_count = 0  # in the journals, that a start would replay
        self.log_count = 0
        self.torn_tail_count = 0  # of logs that were not sealed
        self.ledger_count = 0
        self.entry_count = 0  # in the index
        self.problem_count = 0
        self._found_before = found_before  # of the directories as a whole

    def problems(self) -> Iterator[Problem]:
        """Yield the problems: journal, logs, index.

        Raises:
            CookieMismatchError: the journal is another bookie's.
        """
        try:
            for problem in self._problems():
                self.problem_count += 1
                yield problem
        finally:
            self._open_files.close()

    def _problems(self) -> Iterator[Problem]:
        yield from self._found_before
        for directory in filter(self._files.exists, self._ledger_dirs):
            yield from self._part(directory, self._notes)
        for number, path in enumerate(self._journal_dirs):
            if path not in self.out_of_service:
                yield from self._part(path, partial(self._journal, number))
        for directory in self._ledger_dirs:
            yield from self._part(f"{directory}/logs", self._logs)
            yield from self._part(f"{directory}/index", partial(self._index, f"{directory}/logs"))

    def _part(self, part: str, check: Callable[[str], Iterator[Problem]]) -> Iterator[Problem]:
        if not self._files.exists(part):
            yield Problem(part, 0, "is missing")
            return
        try:
            yield from check(part)
        except OSError as error:
            yield Problem(part, 0, f"cannot be read: {error.strerror}")
        except CorruptJournalError as error:
            yield Problem(error.path, error.offset, error.reason)
        except CorruptRecordError as error:
            yield Problem(error.where, error.offset, error.reason)

    def _notes(self, directory: str) -> Iterator[Problem]:
        owner = self._bookie_id.encode()
        mark = LastMark(self._files, directory, FailStop()).look()
        self._marks.append(mark)
        if mark is not None and len(mark.positions) != len(self._journal_dirs):
            told = f"it is of {len(mark.positions)} journals; there are {len(self._journal_dirs)}"
            yield Problem(f"{directory}/last_mark", 0, told)
        DeletedLedgers(self._files, directory, owner=owner, fail_stop=FailStop()).load()
        CompactionNote(self._files, directory, owner).read()
        lost = look_for_lost(self._files, directory, owner)
        yield from self._lost(lost)
        yield from self._lost_new(lost, mark)

    def _lost(self, lost: LostFiles) -> Iterator[Problem]:
        if lost.census_fault:
            yield Problem(f"{lost.path}/{CENSUS_NAME}", 0, lost.census_fault)
        short_ids = set(lost.short_ids)
        for ledger_id in lost.ledger_ids:
            if ledger_id not in short_ids:  # short files are reported with the index
                path = IndexPath.of(f"{lost.path}/index", ledger_id).path
                yield Problem(path, 0, f"is missing: ledger {ledger_id} was here")
        for log in lost.logs:
            cut = f"ends here, and had {log.least_size} bytes"
            yield Problem(log.path, log.size or 0, "is missing" if log.size is None else cut)

    def _lost_new(self, lost: LostFiles, mark: LogMark | None) -> Iterator[Problem]:
        if not was_killed(self._files, self._ledger_dirs[0], boot_id()):
            return  # a loss of power may tear the note, and take logs
        note = NewLogs(self._files, lost.path, owner=self._bookie_id.encode())
        note.load()
        if note.fault:
            yield Problem(note.path, 0, note.fault)
        log_dir, marked_id = f"{lost.path}/logs", mark.entry_log_id if mark else 0
        existing = log_ids(self._files, log_dir) if self._files.exists(log_dir) else []
        for log_id in note.lost(existing, marked_id, lost.deleted):
            reason = "is missing: it came after the last checkpoint"
            yield Problem(log_path(log_dir, log_id), 0, reason)

    def _journal(self, number: int, directory: str) -> Iterator[Problem]:
        if len(self._marks) < len(self._ledger_dirs):
            return  # reported with the marks
        position = first_position(self._marks, number)
        owner = self._bookie_id.encode()
        replay = JournalReplay(self._files, directory, position, owner=owner)
        self.record_count += replay.look().record_count
        yield from ()

    def _logs(self, directory: str) -> Iterator[Problem]:
        for log_id in log_ids(self._files, directory):
            self.log_count += 1
            path = log_path(directory, log_id)
            inspection = EntryLogInspection(self._files, path, self._bookie_id)
            pending: list[Fault] = []
            for found in inspection.findings():
                if isinstance(found, Fault) and inspection.is_readable:
                    pending.append(found)
                    continue
                yield from (Problem(path, fault.offset, fault.reason) for fault in pending)
                pending = []
                if isinstance(found, Fault):
                    yield Problem(path, found.offset, found.reason)
            is_left_by_crash = inspection.entry_count or inspection.is_stub
            if inspection.is_sealed or not is_left_by_crash:
                yield from (Problem(path, fault.offset, fault.reason) for fault in pending)
            self.torn_tail_count += bool(pending) and not inspection.is_sealed

    def _index(self, log_dir: str, root: str) -> Iterator[Problem]:
        reader = IndexReader(root, self._open_files)
        for ledger_id in ledger_ids(self._files, root):
            self.ledger_count += 1
            path = IndexPath.of(root, ledger_id).path
            for found in IndexInspection(self._files, path).findings():
                if isinstance(found, Fault):
                    yield Problem(path, found.offset, found.reason)
            try:
                header = reader.read_header(ledger_id)
            except CorruptRecordError:
                continue  # reported by the inspection
            if header is not None:
                yield from self._entries(reader, header, path, log_dir)

    def _entries(
        self, reader: IndexReader, header: LedgerIndex, path: str, log_dir: str
    ) -> Iterator[Problem]:
        for first, last, _ in header.extents:
            for page_no in range(first, last + 1):
                try:
                    page = reader.read_page(header, page_no)
                except CorruptRecordError:
                    continue  # reported by the inspection
                if page is not None:
                    yield from self._page(header.ledger_id, page_no, page.locations, path, log_dir)

    def _page(
        self, ledger_id: int, page_no: int, locations: "array[int]", path: str, log_dir: str
    ) -> Iterator[Problem]:
        low = page_no << PAGE_BITS
        ids = [low + slot for slot, one in enumerate(locations) if one != ABSENT]
        known = array("Q", [one for one in locations if one != ABSENT])
        self.entry_count += len(ids)
        while ids:
            try:
                count, _ = fetch(
                    partial(self._read, log_dir), Resolved(ledger_id, ids, known, READ_SIZE)
                )
            except EntryUnreadableError:
                log_id, offset = split_location(known[0])
                told = f"entry {ids[0]} of ledger {ledger_id} is not at its location in {path}"
                yield Problem(log_path(log_dir, log_id), offset, told)
                count = 1
            ids, known = ids[count:], known[count:]

    def _read(self, log_dir: str, location: int, size: int) -> bytes:
        log_id, offset = split_location(location)
        with self._open_files.use(log_path(log_dir, log_id)) as file:
            return file.pread(size, offset)
