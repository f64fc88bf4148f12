"""The journals of a bookie: one for each journal directory.

A journal has a *number*, its place among the bookie's journal directories, forever: the last log
marks use it. While the bookie runs, all records of a ledger go to one journal in service, by the
ledger's id. When a journal goes out of service or comes back, ledgers change their journal. Then
records of a ledger may be in two journals, so a replay applies the keys in all journals first
(``zbk.storage.journal.replay``).

Threads: ``open`` and ``close`` belong to the owner of the storage; the rest as in ``Journal``.

Source: BookKeeper's ``journalDirectories``, of which a ledger has one by its id.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.record import JournalRecord, LedgerKeyRecord
from zbk.storage.journal.replay import JournalReplay, ReplayResult
from zbk.storage.journal.segment import NO_POSITION, SEGMENT_HEADER_SIZE, JournalPosition
from zbk.storage.journal.spares import SMALL_SEGMENT_SIZE
from zbk.system.files import FileSystem


class Journals:
    """The journals in service. ``open`` comes first."""

    def __init__(
        self,
        files: FileSystem,
        directories: Mapping[int, str],
        *,
        count: int,
        owner: bytes,
        fail_stop: FailStop,
        segment_size: int,
    ) -> None:
        self._files = files
        self._directories = directories  # in service, by number
        self._count = count  # of all
        self._owner = owner
        self._fail_stop = fail_stop
        self._segment_size = segment_size
        self.by_number: dict[int, Journal] = {}
        self._journals: Sequence[Journal] = ()

    def __iter__(self) -> Iterator[Journal]:
        return iter(self._journals)

    def __len__(self) -> int:
        return len(self._directories)

    @property
    def directories(self) -> Collection[str]:
        """The directories of journals in service."""
        return self._directories.values()

    @property
    def numbers(self) -> Collection[int]:
        """The numbers of journals in service."""
        return self._directories.keys()

    def of(self, ledger_id: int) -> int:
        """Return the place, among the journals in service, of the one for a ledger: 0, 1 ..."""
        return ledger_id % len(self._directories)

    def make_directories(self) -> None:
        """Make the directories that do not exist.

        Raises:
            StorageFailedError: one cannot be made.
        """
        for path in self._directories.values():
            with self._fail_stop.guard(path, "open"):
                self._files.make_dirs(path)

    def open(
        self, marks: Sequence[JournalPosition], on_record: Callable[[JournalRecord], None]
    ) -> Sequence[ReplayResult]:
        """Replay each journal from its mark; then begin a new segment in each.

        ``marks`` has one for each number; ``NO_POSITION`` is the start of the journal.

        Raises:
            CorruptJournalError: promised records are damaged; nothing was changed.
            CookieMismatchError: a journal is another bookie's.
            NoSpaceError: there is no room for a segment, or for what is written again.
            StorageFailedError: reading or writing failed.
        """
        found = {}
        for number, path in self._directories.items():
            mark = None if marks[number] == NO_POSITION else marks[number]
            with self._fail_stop.guard(path, "open"):
                found[number] = JournalReplay(
                    self._files, path, mark, owner=self._owner, fail_stop=self._fail_stop
                )
        keys: list[LedgerKeyRecord] = []

        def keep_key(record: JournalRecord) -> None:
            if isinstance(record, LedgerKeyRecord):
                keys.append(record)

        for one in found.values():
            one.check(_ignore if len(found) == 1 else keep_key)
        for key in keys:
            on_record(key)
        results = {number: one.apply(on_record) for number, one in found.items()}
        for number, path in self._directories.items():
            with self._fail_stop.guard(path, "open"):
                self.by_number[number] = Journal(
                    self._files,
                    path,
                    owner=self._owner,
                    start=results[number].end,
                    fail_stop=self._fail_stop,
                    segment_size=self._segment_size,
                )
        self._journals = tuple(self.by_number.values())
        return list(results.values())

    def close(self) -> None:
        """Sync and close all journals.

        Raises:
            StorageFailedError: an fsync failed; the other journals were closed, too.
        """
        journals, self._journals = list(self._journals), ()
        try:
            while journals:
                journals.pop().close()
        finally:
            for one in journals:
                one.close()

    # ------------------------------------------------------------------ all of them

    def positions(self) -> tuple[JournalPosition, ...]:
        """Return the place of each journal's next record, by number. Any thread."""
        return tuple(
            self.by_number[number].position if number in self.by_number else NO_POSITION
            for number in range(self._count)
        )

    @property
    def write_size(self) -> int:
        """Bytes of records appended since the start. Any thread."""
        return sum(one.write_size for one in self._journals)

    @property
    def room_size(self) -> int:
        """Bytes of records for which each journal has space, allocated or free on its disk."""
        return min(map(self._room_size, self.by_number))

    # ------------------------------------------------------------------ private

    def _room_size(self, number: int) -> int:
        segment_count = self._files.free_size(self._directories[number]) // SMALL_SEGMENT_SIZE
        new_size = segment_count * (SMALL_SEGMENT_SIZE - SEGMENT_HEADER_SIZE)
        return self.by_number[number].room_size + new_size


def _ignore(_record: JournalRecord) -> None:
    """Do nothing: ``apply`` passes the record on."""
