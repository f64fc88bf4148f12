"""Checks all files of a stopped bookie, and that what the index says is so. Changes nothing.

    journal    a start would accept it, and the list of deleted ledgers
    logs       every block and every map passes its checksum; but the tail of a log that was not
               sealed may be torn by a crash
    index      so does every header and every page; and each location that it has is the place of
               the very entry that it is the location of

Digests of entries are not verified: only clients know the keys.

Source: BookKeeper's ``SanityTestCommand``, ``LocalConsistencyCheckCommand``.
"""

from array import array
from collections.abc import Iterator
from typing import Final

import msgspec

from zbk.errors import CorruptJournalError, CorruptRecordError, EntryUnreadableError
from zbk.storage.deleted_ledgers import DeletedLedgers
from zbk.storage.entry_log import log_ids, log_path
from zbk.storage.entry_reader import Resolved, fetch
from zbk.storage.fail_stop import FailStop
from zbk.storage.index_file import IndexPath, IndexReader, LedgerIndex, ledger_ids
from zbk.storage.index_page import PAGE_BITS
from zbk.storage.inspect_entry_log import EntryLogInspection
from zbk.storage.inspect_index import IndexInspection
from zbk.storage.inspection import Fault
from zbk.storage.journal_replay import look
from zbk.storage.last_mark import LastMark
from zbk.storage.location import ABSENT, split_location
from zbk.storage.open_files import OPEN_FILES_MAX, OpenFiles
from zbk.system.files import FileSystem

READ_SIZE: Final = 4 * 1024 * 1024


class Problem(msgspec.Struct, frozen=True):
    """What is wrong, and where."""

    path: str
    offset: int
    reason: str


class SanityCheck:
    """One check. Whoever runs it holds the locks of the directories.

    ``problems`` comes first, once, and to its end; then the counts are right.
    """

    def __init__(
        self, files: FileSystem, *, journal_dir: str, ledger_dir: str, bookie_id: str
    ) -> None:
        self._files = files
        self._journal_dir = journal_dir
        self._ledger_dir = ledger_dir
        self._bookie_id = bookie_id
        self._root = f"{ledger_dir}/index"
        self._log_dir = f"{ledger_dir}/logs"
        self._open_files = OpenFiles(files, OPEN_FILES_MAX)
        self.record_count = 0  # of the journal, that a start would replay
        self.log_count = 0
        self.torn_tail_count = 0  # logs that were not sealed when the bookie died
        self.ledger_count = 0
        self.entry_count = 0  # in the index
        self.problem_count = 0

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong: journal, logs, index.

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
        for part, check in (
            (self._journal_dir, self._journal),
            (self._log_dir, self._logs),
            (self._root, self._index),
        ):
            if not self._files.exists(part):
                yield Problem(part, 0, "is missing")
                continue
            try:
                yield from check()
            except OSError as error:
                yield Problem(part, 0, f"can not be read: {error.strerror}")

    def _journal(self) -> Iterator[Problem]:
        try:
            mark = LastMark(self._files, self._ledger_dir, FailStop()).load()
            position = None if mark is None else mark.position
            owner = self._bookie_id.encode()
            found = look(self._files, self._journal_dir, position, owner=owner)
            DeletedLedgers(self._files, self._ledger_dir, owner=owner, fail_stop=FailStop()).load()
        except CorruptJournalError as error:
            yield Problem(error.args[0], error.args[1], error.args[2])
        except CorruptRecordError as error:
            yield Problem(error.args[0], error.offset, error.reason)
        else:
            self.record_count = found.record_count

    def _logs(self) -> Iterator[Problem]:
        for log_id in log_ids(self._files, self._log_dir):
            self.log_count += 1
            path = log_path(self._log_dir, log_id)
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
            if inspection.is_sealed or not inspection.entry_count:
                yield from (Problem(path, fault.offset, fault.reason) for fault in pending)
            self.torn_tail_count += bool(pending) and not inspection.is_sealed

    def _index(self) -> Iterator[Problem]:
        reader = IndexReader(self._root, self._open_files)
        for ledger_id in ledger_ids(self._files, self._root):
            self.ledger_count += 1
            path = IndexPath.of(self._root, ledger_id).path
            for found in IndexInspection(self._files, path).findings():
                if isinstance(found, Fault):
                    yield Problem(path, found.offset, found.reason)
            try:
                header = reader.read_header(ledger_id)
            except CorruptRecordError:
                continue  # told above
            if header is not None:
                yield from self._entries(reader, header, path)

    def _entries(self, reader: IndexReader, header: LedgerIndex, path: str) -> Iterator[Problem]:
        for first, last, _ in header.extents:
            for page_no in range(first, last + 1):
                try:
                    page = reader.read_page(header, page_no)
                except CorruptRecordError:
                    continue  # told above
                if page is not None:
                    yield from self._page(header.ledger_id, page_no, page.locations, path)

    def _page(
        self, ledger_id: int, page_no: int, locations: "array[int]", path: str
    ) -> Iterator[Problem]:
        low = page_no << PAGE_BITS
        ids = [low + slot for slot, one in enumerate(locations) if one != ABSENT]
        known = array("Q", [one for one in locations if one != ABSENT])
        self.entry_count += len(ids)
        while ids:
            try:
                count, _ = fetch(self._read, Resolved(ledger_id, ids, known, READ_SIZE))
            except EntryUnreadableError:
                log_id, offset = split_location(known[0])
                told = f"entry {ids[0]} of ledger {ledger_id} is not there, where {path} says it is"
                yield Problem(log_path(self._log_dir, log_id), offset, told)
                count = 1
            ids, known = ids[count:], known[count:]

    def _read(self, location: int, size: int) -> bytes:
        log_id, offset = split_location(location)
        with self._open_files.use(log_path(self._log_dir, log_id)) as file:
            return file.pread(size, offset)
