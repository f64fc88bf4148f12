"""Rebuilds the index of a stopped bookie from its entry logs, its journal and the old index.

    build     a new index in a folder of its own, ``rebuild``: every entry of every log; of an
              entry in two logs, the copy in the later log
    compare   with the old index, page by page. A location that only the old index has is kept: the
              bytes there are damaged or missing, and a read must be an error, not "no such entry"
    refuse    if logs are damaged and the old index is not whole, or if an entry of the old index is
              in neither: nothing was changed
    verify    the new files are read back
    swap      a note is made that keeps the bookie from starting (``directory.unfinished``); the
              flush file is made void; each new file replaces the old one; a new census is written;
              the note is removed

A crash before the note leaves the old index; after it, ``run`` continues the swap. Deleted ledgers
are left out. For ledgers whose header was lost, see ``tools.rebuild_sources``.

With several ledger directories it rebuilds the index of one of them, without ledgers that the index
or the census of another one has, and without those that a start replays from their first record and
the logs here do not have.

The journal is not changed: the next start replays it over the new index.

The tail of an unsealed log may be torn, and a log that was begun after the last log mark may hold
anything: the journal has those entries. All other damage may hide entries. A log that compaction
made has a later id than the mark, and the journal has nothing of it: the census promises its bytes.

Source: BookKeeper's ``InterleavedStorageRegenerateIndexOp``, which forgets fences.
"""

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from typing import Final

import msgspec

from zbk.durability.level import level_of
from zbk.errors import BookieError, CookieMismatchError, CorruptRecordError, ZbkError
from zbk.protocol.entry.digest import checksum
from zbk.storage.directory import unfinished
from zbk.storage.directory.lost_files import look
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.open_files import OPEN_FILES_MAX, OpenFiles
from zbk.storage.disk.small_file import file_size
from zbk.storage.disk.write_again import write_again
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.format import LOG_HEADER_SIZE
from zbk.storage.entry_logs.location import OFFSET_MAX, location_of
from zbk.storage.gc.compaction_note import CompactionNote
from zbk.storage.index.census import Census
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.index.flush_file import FlushFile
from zbk.storage.index.index_file import (
    IndexPath,
    IndexReader,
    ledger_ids,
)
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.storage.journal.last_mark import LastMark, LogMark
from zbk.storage.journal.segment import NO_POSITION
from zbk.storage.tools.comparison import IndexComparison, put
from zbk.storage.tools.inspect_entry_log import EntryLogInspection, FoundBlock
from zbk.storage.tools.inspect_index import IndexInspection
from zbk.storage.tools.inspection import Fault
from zbk.storage.tools.new_index import NewIndex, cache_without_logs
from zbk.storage.tools.rebuild_sources import AskOthers, KnownLedgers
from zbk.system.files import FileSystem

COMMAND: Final = "zbk bookie rebuild-index"
_NO_LIMIT: Final = 1 << 62

Tell = Callable[[str, int], None]
"""Receives the name of the present step, and the number of entries done."""


class RebuildReport(msgspec.Struct, frozen=True):
    """The report of a rebuild. Counts are of entries, except the first."""

    ledger_count: int
    entry_count: int
    added_count: int  # the old index did not have them
    moved_count: int  # it had them elsewhere
    kept_count: int  # only it had them: reading them is an error
    fenced_ids: tuple[int, ...]  # ledgers whose header was lost
    left_out_ids: tuple[int, ...]  # deleted ledgers
    torn_tails: tuple[str, ...]  # of unsealed logs
    whole: LedgerRanges = LedgerRanges()  # ledgers that certainly miss no entry


class IndexRebuild:
    """One rebuild. The caller holds the locks of the directories.

    Raises:
        StorageFailedError: from ``run``: a write or fsync failed; run it again.
    """

    def __init__(
        self,
        files: FileSystem,
        *,
        journal_dir: str | Sequence[str],
        ledger_dir: str,
        bookie_id: str,
        ask_others: AskOthers,
        out_of_service: Collection[str] = (),
        other_ledger_dirs: Sequence[str] = (),
        tell: Tell = lambda _what, _count: None,
    ) -> None:
        self._files = files
        self._journal_dirs = (journal_dir,) if isinstance(journal_dir, str) else journal_dir
        self._out_of_service = out_of_service
        self._other_ledger_dirs = other_ledger_dirs  # in service; their ledgers are left out
        self._ledger_dir = ledger_dir
        self._bookie_id = bookie_id
        self._owner = bookie_id.encode()
        self._tell = tell
        self._root = f"{ledger_dir}/index"
        self._new = NewIndex(files, ledger_dir, "rebuild")
        self._fail_stop = FailStop()
        self._open_files = OpenFiles(files, OPEN_FILES_MAX)
        self._reader = IndexReader(self._root, self._open_files)
        self._known = KnownLedgers(ask_others)
        self._comparison = IndexComparison(self._root, self._reader, self._known)
        self._taken: dict[int, bool] = {}  # by ledger: whether it is in the new index
        self._elsewhere_ids: set[int] = set()
        self._unjournaled_ids: set[int] = set()
        self._mark: LogMark | None = None
        self._is_old_whole = files.exists(self._root)
        self._losses: list[CorruptRecordError] = []
        self._torn_tails: list[str] = []
        self._is_log_set_known = False
        self._counted_sizes: Mapping[int, int] = {}  # least bytes of the logs in the census
        self._read_count = 0  # copies count

    def run(self) -> RebuildReport | None:
        """Rebuild, and swap; ``None``: only finished the swap of an earlier run.

        Raises:
            CorruptRecordError: entries may be lost at the named place. Nothing was changed.
            CookieMismatchError: the files are another bookie's.
            ZbkError: the key of a ledger whose header is lost is not known.
        """
        with closing(self._open_files), self._fail_stop.guard(self._ledger_dir, COMMAND):
            command = unfinished.unfinished_command(self._files, self._ledger_dir)
            if command == COMMAND:
                self._swap()
                return None
            unfinished.check_finished(self._files, self._ledger_dir)
            self._new.remove()
            try:
                self._build()
            except ZbkError:
                self._new.remove()
                raise
            unfinished.begin(self._files, self._ledger_dir, COMMAND)
            self._swap()
            return self._report()

    # ------------------------------------------------------------------ build

    def _build(self) -> None:
        self._read_sources()
        cache = self._new.begin(self._open_files, self._fail_stop)
        self._scan_logs(cache)
        for ledger_id in sorted(self._known.named_ids):
            # another directory may have its entries, which the start finds out
            if not (self._other_ledger_dirs and self._known.is_replayed(ledger_id)):
                self._take_in(cache, ledger_id)
        for ledger_id in self._known_ids():
            self._comparison.compare(cache, ledger_id)
        is_told_whole = all(map(self._known.is_told_whole, self._known_ids()))
        is_old_whole = self._is_old_whole and not self._comparison.has_damaged_pages
        if self._losses and not (is_old_whole and is_told_whole):
            raise self._losses[0]
        cache.flush()
        self._open_files.close()
        self._verify()

    def _read_sources(self) -> None:
        self._known.read_flush_file(self._files, self._ledger_dir)
        if self._is_old_whole:
            # as a start does: the flush file is newer than the index files
            cache_without_logs(
                self._files, self._ledger_dir, self._open_files, self._fail_stop
            ).open()
            self._known.read_index(self._files, self._root, self._reader)
            self._is_old_whole = not self._known.has_lost_headers
        self._mark = LastMark(self._files, self._ledger_dir, self._fail_stop).load()
        self._miss_files()
        self._read_journals()
        self._read_others()
        deleted = DeletedLedgers(
            self._files, self._ledger_dir, owner=self._owner, fail_stop=self._fail_stop
        )
        deleted.load()
        self._deleted = deleted

    def _read_journals(self) -> None:
        there = {
            number: path
            for number, path in enumerate(self._journal_dirs)
            if path not in self._out_of_service and self._files.exists(path)
        }
        # twice: the key of a ledger may be in one journal, and its other records in another
        for number, path in [*there.items()] * (1 if len(self._journal_dirs) == 1 else 2):
            position = NO_POSITION if self._mark is None else self._mark.positions[number]
            self._known.read_journal(self._files, path, self._owner, position)
        if len(there) < len(self._journal_dirs):
            self._known.miss_a_journal()

    def _read_others(self) -> None:
        """Leave out the ledgers that live in other ledger directories.

        Raises:
            BookieError: those ledgers are not known.
            CorruptRecordError: the last mark, or the note of deleted ledgers, is damaged there.
        """
        for directory in self._other_ledger_dirs:
            root = f"{directory}/index"
            if not self._files.exists(root):
                raise BookieError(
                    f"{root} is missing, too, and the ledgers in it are not known: put it "
                    "back, or take the directory out of service with `zbk bookie retire-dir`"
                )
            there = ledger_ids(self._files, root)
            lost = look(self._files, directory, self._owner).ledger_ids  # its own rebuild has them
            self._taken.update(dict.fromkeys((*there, *lost), False))
            self._elsewhere_ids.update(self._taken)

    def _miss_files(self) -> None:
        """Record the ledgers and logs in the census that are missing."""
        lost = look(self._files, self._ledger_dir, self._owner)
        self._known.named_ids.update(lost.ledger_ids)
        self._is_old_whole &= not lost.ledger_ids
        self._is_log_set_known = lost.least_sizes is not None
        self._counted_sizes = lost.known_sizes
        for log in lost.logs:
            told = (
                "is missing" if log.size is None else f"ends here, and had {log.least_size} bytes"
            )
            self._losses.append(_loss(log.path, Fault(log.size or 0, 0, told)))

    def _scan_logs(self, cache: LedgerCache) -> None:
        directory = f"{self._ledger_dir}/logs"
        if not self._files.exists(directory):
            return
        promised_log_id = 0 if self._mark is None else self._mark.entry_log_id
        for log_id in log_ids(self._files, directory):
            path = log_path(directory, log_id)
            is_marked = log_id <= promised_log_id
            promised_size = OFFSET_MAX if is_marked else self._counted_sizes.get(log_id, 0)
            self._scan_log(cache, path, log_id, promised_size)
            self._keep(path, self._counted_sizes.get(log_id, 0))
        # the index must not point at logs that a loss of power can take
        self._files.sync_dir(directory)

    def _scan_log(self, cache: LedgerCache, path: str, log_id: int, promised_size: int) -> None:
        """Index the entries of a log; damage within ``promised_size`` may hide entries."""
        inspection = EntryLogInspection(self._files, path, self._bookie_id)
        pending: list[Fault] = []
        losses: list[Fault] = []
        for found in inspection.findings():
            if isinstance(found, FoundBlock):
                losses += pending
                pending = []
                self._put(cache, log_id, found)
            elif not inspection.is_readable:
                losses.append(found)
            elif found.offset >= LOG_HEADER_SIZE and not inspection.is_sealed:
                pending.append(found)  # a header holds no entry, nor does a map
        if inspection.owner_hash != checksum(self._owner):
            raise CookieMismatchError(f"{path} is an entry log of another bookie")
        if inspection.is_sealed or not inspection.entry_count:
            losses += pending
        elif pending:
            self._torn_tails.append(path)
        self._losses += [_loss(path, one) for one in losses if one.offset < promised_size]

    def _put(self, cache: LedgerCache, log_id: int, block: FoundBlock) -> None:
        ledger_id = block.header.ledger_id
        if not self._take_in(cache, ledger_id):
            return
        entry_ids = array("q", [entry.entry_id for entry in block.entries])
        locations = array("Q", [location_of(log_id, entry.offset) for entry in block.entries])
        put(cache, ledger_id, entry_ids, locations)
        self._read_count += len(entry_ids)
        self._tell("reading entry logs", self._read_count)

    def _take_in(self, cache: LedgerCache, ledger_id: int) -> bool:
        if ledger_id in self._taken:
            return self._taken[ledger_id]
        header = None
        if ledger_id not in self._deleted:
            header = self._known.new_header(ledger_id)
        self._taken[ledger_id] = header is not None
        if header is None:
            return False
        if not level_of(header.ledger_type).is_journaled:
            self._unjournaled_ids.add(ledger_id)
        cache.set_ledger_key(ledger_id, header.ledger_key, header.ledger_type)
        index = cache.handle(ledger_id)
        index.set_explicit_lac(header.explicit_lac)
        index.set_last_add_synced(header.last_add_synced)
        if header.is_fenced:
            index.set_fenced()
        return True

    def _known_ids(self) -> list[int]:
        return sorted(ledger_id for ledger_id, is_here in self._taken.items() if is_here)

    # ------------------------------------------------------------------ verify and swap

    def _verify(self) -> None:
        for ledger_id in ledger_ids(self._files, self._new.root):
            path = IndexPath.of(self._new.root, ledger_id).path
            for found in IndexInspection(self._files, path).findings():
                if isinstance(found, Fault):
                    raise CorruptRecordError(path, found.offset, found.reason)

    def _swap(self) -> None:
        """Give every new file its name. A part of it may have been done before."""
        flush_file = FlushFile(self._files, self._ledger_dir)
        if self._files.exists(flush_file.path):
            flush_file.retire()
        # an interrupted compaction would continue with the live entries of the old index
        CompactionNote(self._files, self._ledger_dir, self._owner).remove()
        self._files.make_dirs(self._root)
        self._new.name_files()
        self._write_census()
        unfinished.end(self._files, self._ledger_dir)
        self._new.remove()

    def _write_census(self) -> None:
        """Write a census of the present files and of missing logs, at which old locations point."""
        census = Census(self._files, self._ledger_dir, owner=self._owner, fail_stop=self._fail_stop)
        lost = look(self._files, self._ledger_dir, self._owner)
        sizes = dict(lost.known_sizes)
        with suppress(CorruptRecordError):
            census.load()
        log_dir = f"{self._ledger_dir}/logs"
        for log_id in log_ids(self._files, log_dir) if self._files.exists(log_dir) else ():
            sizes[log_id] = max(sizes.get(log_id, 0), self._size(log_path(log_dir, log_id)))
        census.begin(ledger_ids(self._files, self._root), {}, has_gaps=lost.has_gaps)
        census.write(sizes)

    def _size(self, path: str) -> int:
        """Return the bytes of a log, which the scan has synced; 0: it cannot be opened."""
        with suppress(OSError):
            return file_size(self._files, path)
        return 0

    def _keep(self, path: str, counted_size: int) -> None:
        """Put a log on stable storage: what no census has counted is written again.

        It is synced before that, too: a loss of power may tear what is written.
        """
        with closing(self._files.open(path)) as file:
            file.sync()
            write_again(file, counted_size, file.size())
            file.sync()

    def _report(self) -> RebuildReport:
        here = self._known_ids()
        is_whole = self._is_log_set_known and not self._losses
        # a lost log after the last mark may have had entries of the others, and nothing tells now
        journaled = (one for one in here if one not in self._unjournaled_ids)
        return RebuildReport(
            ledger_count=len(here),
            entry_count=self._comparison.entry_count,
            added_count=self._comparison.added_count,
            moved_count=self._comparison.moved_count,
            kept_count=self._comparison.kept_count,
            fenced_ids=tuple(sorted(self._known.fenced_ids)),
            left_out_ids=tuple(sorted(set(self._taken) - set(here) - self._elsewhere_ids)),
            torn_tails=tuple(self._torn_tails),
            whole=LedgerRanges().with_ids(journaled if is_whole else ()),
        )


def _loss(path: str, fault: Fault) -> CorruptRecordError:
    return CorruptRecordError(
        path,
        fault.offset,
        f"{fault.reason}; only the old index has the entries that were there, and it is not whole: "
        "nothing was changed, because the bookie would deny those entries. Restore them from the "
        "other replicas",
    )
