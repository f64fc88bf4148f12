"""One checkpoint: the steps after which old journal segments are removed, in the only safe order.

    begin             owner   the mark is the present end of each journal: all records before it are
                              in entry logs and index. The changed part of the index is taken
    sync_entry_logs   any     the entries are put on stable storage
    write_index       any     the changes of the index are put into the flush file and new files
    apply_index       any     the changes are written in place
    write_census      any     the index files and logs that must exist (``index.census``)
    write_mark        any     the mark: replay begins there from now on
    remove_journals   any     segments before the mark are removed
    end               owner   index pages may be evicted

After a crash between two steps, the mark is where it was, or everything before it is safe. The
steps run in order, one thread at a time. A step that found no space may be repeated, and so may all
steps: those that are done do nothing, or the same again.

Each ledger directory has a flush, a census and a mark of its own (``DirectoryFlush``). Its mark, of
all journals, follows its flush. Segments of a journal are removed when the marks of all directories
have passed them.

Source: the seed, section Data flush; BookKeeper's ``SyncThread``; BOOKKEEPER-447, #4740, #3329.
"""

from collections.abc import Callable, Mapping, Sequence

from zbk.storage.entry_logs.entry_log import EntryLogs
from zbk.storage.entry_logs.left_logs import LogsAtMark
from zbk.storage.index.census import Census
from zbk.storage.index.index_flush import IndexFlush
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.last_mark import LastMark, LogMark


class DirectoryFlush:
    """The part of a checkpoint in one ledger directory."""

    def __init__(
        self,
        mark: LogMark,
        flush: IndexFlush,
        last_mark: LastMark,
        census: Census,
        logs: EntryLogs,
        logs_at: LogsAtMark,
    ) -> None:
        """``logs_at``: the logs when it began; ``flush`` syncs them."""
        self.mark = mark
        self.flush = flush
        self._last_mark = last_mark
        self._census = census
        self._logs = logs
        self._logs_at = logs_at
        self._is_index_applied = False
        self._is_census_written = False
        self._is_mark_written = False

    @property
    def durable_mark(self) -> LogMark:
        """The mark of the directory that is on stable storage."""
        assert self._is_mark_written, "replay may still need the segments before it"
        assert self._last_mark.mark is not None, "it was written"
        return self._last_mark.mark

    def sync_entry_logs(self) -> None:
        """Put the entries on stable storage."""
        self.flush.sync_entry_logs()

    def write_index(self) -> None:
        """Put the changes of the index on stable storage, outside of their places."""
        self.flush.write()

    def apply_index(self) -> None:
        """Put the changes of the index into their places."""
        self.flush.apply()
        self._is_index_applied = True

    def write_census(self) -> None:
        """Record the files that a start must find."""
        assert self._is_index_applied, "the census has files on stable storage"
        self._census.write(self._logs_at.least_sizes)
        self._is_census_written = True

    def write_mark(self) -> None:
        """Write the mark of this directory."""
        assert self._is_index_applied, "the mark must not pass records that the index lacks"
        assert self._is_census_written, "nor files that the census lacks"
        self._last_mark.write(self.mark)
        self._logs.marked(self._logs_at)
        self._is_mark_written = True


class Checkpoint:
    """A checkpoint under way. Made by ``BookieStorage.begin_checkpoint``.

    Raises:
        NoSpaceError: from every step: it may be tried again.
        StorageFailedError: from every step: writing failed, or anything failed before.
    """

    def __init__(self, flushes: Sequence[DirectoryFlush], journals: Mapping[int, Journal]) -> None:
        self.flushes = flushes  # one for each ledger directory
        self._journals = journals  # by number
        self.removed_count = 0  # journal segments

    @property
    def ledger_count(self) -> int:
        """The number of index files that it writes."""
        return sum(one.flush.ledger_count for one in self.flushes)

    @property
    def steps(self) -> Sequence[Callable[[], None]]:
        """The steps between begin and end, in order."""
        return (
            self.sync_entry_logs,
            self.write_index,
            self.apply_index,
            self.write_census,
            self.write_mark,
            self.remove_journals,
        )

    def run(self) -> None:
        """Run all steps between begin and end."""
        for step in self.steps:
            step()

    def sync_entry_logs(self) -> None:
        """Put the entries on stable storage."""
        for one in self.flushes:
            one.sync_entry_logs()

    def write_index(self) -> None:
        """Put the changes of the index on stable storage, outside of their places."""
        for one in self.flushes:
            one.write_index()

    def apply_index(self) -> None:
        """Put the changes of the index into their places."""
        for one in self.flushes:
            one.apply_index()

    def write_census(self) -> None:
        """Record the files that a start must find."""
        for one in self.flushes:
            one.write_census()

    def write_mark(self) -> None:
        """Write the marks: replay begins there from now on."""
        for one in self.flushes:
            one.write_mark()

    def remove_journals(self) -> None:
        """Remove the segments before the marks of all ledger directories."""
        marks = [one.durable_mark for one in self.flushes]
        for number, journal in self._journals.items():
            mark = min(one.positions[number] for one in marks)
            self.removed_count += journal.remove_before(mark)
