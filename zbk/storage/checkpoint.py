"""One checkpoint: the steps that let old journal segments go, in the only order that is safe.

    begin             owner   the mark is the end of each journal now: everything before it has been
                              handed to entry logs and index; what changed in the index is taken
    sync_entry_logs   any     the entries are on stable storage
    write_index       any     so is what changes in the index, in the flush file and in new files
    apply_index       any     and in place
    write_census      any     which index files and logs have to be there (``index.census``)
    write_mark        any     the mark: replay begins there from now on
    remove_journals   any     segments before it are not needed any more
    end               owner   the index pages may leave memory

A crash between any two leaves the mark where it was, or moves it over what is safe. Each step is
taken once, in order; one thread at a time. One that found no space may be taken again, and so may
all of them: those that were taken do nothing, or the same.

Each ledger directory has a flush, a census and a mark of its own (``DirectoryFlush``), and its
mark, of all journals, follows its flush; segments of a journal go when the marks of all directories
have passed them.

Source: the seed, section Data flush; BookKeeper's ``SyncThread``; BOOKKEEPER-447, #4740, #3329.
"""

from collections.abc import Mapping, Sequence

from zbk.storage.index.census import Census
from zbk.storage.index.index_flush import IndexFlush
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.last_mark import LastMark, LogMark


class DirectoryFlush:
    """What a checkpoint does in one ledger directory."""

    def __init__(
        self,
        mark: LogMark,
        flush: IndexFlush,
        last_mark: LastMark,
        census: Census,
        log_sizes: Mapping[int, int],
    ) -> None:
        self.mark = mark
        self.flush = flush
        self._last_mark = last_mark
        self._census = census
        self._log_sizes = log_sizes  # of logs that are synced with the flush, at the latest
        self._is_index_applied = False
        self._is_census_written = False
        self._is_mark_written = False

    @property
    def durable_mark(self) -> LogMark:
        """The mark of the directory that is on stable storage."""
        assert self._is_mark_written, "replay may still need what is before it"
        assert self._last_mark.mark is not None, "it was written"
        return self._last_mark.mark

    def sync_entry_logs(self) -> None:
        """Return once the entries are on stable storage."""
        self.flush.sync_entry_logs()

    def write_index(self) -> None:
        """Return once the changes of the index are on stable storage, outside of their places."""
        self.flush.write()

    def apply_index(self) -> None:
        """Return once they are in their places."""
        self.flush.apply()
        self._is_index_applied = True

    def write_census(self) -> None:
        """Return once a start would miss what is in its place now."""
        assert self._is_index_applied, "the census has what is on stable storage"
        self._census.write(self._log_sizes)
        self._is_census_written = True

    def write_mark(self) -> None:
        """Return once replay begins at the mark, as far as this directory is concerned."""
        assert self._is_index_applied, "the mark may not pass what the index does not have"
        assert self._is_census_written, "nor what would not be missed"
        self._last_mark.write(self.mark)
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
        """How many index files it writes."""
        return sum(one.flush.ledger_count for one in self.flushes)

    def sync_entry_logs(self) -> None:
        """Return once the entries are on stable storage."""
        for one in self.flushes:
            one.sync_entry_logs()

    def write_index(self) -> None:
        """Return once the changes of the index are on stable storage, outside of their places."""
        for one in self.flushes:
            one.write_index()

    def apply_index(self) -> None:
        """Return once they are in their places."""
        for one in self.flushes:
            one.apply_index()

    def write_census(self) -> None:
        """Return once a start would miss what is in its place now."""
        for one in self.flushes:
            one.write_census()

    def write_mark(self) -> None:
        """Return once replay begins at the mark."""
        for one in self.flushes:
            one.write_mark()

    def remove_journals(self) -> None:
        """Remove the segments before the marks of all ledger directories."""
        marks = [one.durable_mark for one in self.flushes]
        for number, journal in self._journals.items():
            mark = min(one.positions[number] for one in marks)
            self.removed_count += journal.remove_before(mark)

    def run(self) -> None:
        """Run all steps between begin and end."""
        self.sync_entry_logs()
        self.write_index()
        self.apply_index()
        self.write_census()
        self.write_mark()
        self.remove_journals()
