"""One checkpoint: the steps that let old journal segments go, in the only order that is safe.

    begin             owner   the mark is the end of the journal now: everything before it has been
                              handed to entry logs and index; what changed in the index is taken
    sync_entry_logs   any     the entries are on stable storage
    write_index       any     so is what changes in the index, in the flush file and in new files
    apply_index       any     and in place
    write_mark        any     the mark: replay begins there from now on
    remove_journals   any     segments before it are not needed any more
    end               owner   the index pages may leave memory

A crash between any two leaves the mark where it was, or moves it over what is safe. Each step is
taken once, in order; one thread at a time. One that found no space may be taken again, and so may
all of them: those that were taken do nothing, or the same.

Source: the seed, section Data flush; BookKeeper's ``SyncThread``; BOOKKEEPER-447, #4740.
"""

from zbk.storage.index_flush import IndexFlush
from zbk.storage.journal import Journal
from zbk.storage.last_mark import LastMark, LogMark


class Checkpoint:
    """A checkpoint under way. Made by ``BookieStorage.begin_checkpoint``.

    Raises:
        NoSpaceError: from every step: it may be tried again.
        StorageFailedError: from every step: writing failed, or anything failed before.
    """

    def __init__(
        self, mark: LogMark, flush: IndexFlush, last_mark: LastMark, journal: Journal
    ) -> None:
        self.mark = mark
        self.flush = flush
        self._last_mark = last_mark
        self._journal = journal
        self._is_index_applied = False
        self._is_mark_written = False
        self.removed_count = 0  # journal segments

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

    def write_mark(self) -> None:
        """Return once replay begins at the mark."""
        assert self._is_index_applied, "the mark may not pass what the index does not have"
        self._last_mark.write(self.mark)
        self._is_mark_written = True

    def remove_journals(self) -> None:
        """Remove the segments before the mark."""
        assert self._is_mark_written, "replay may still need them"
        self.removed_count += self._journal.remove_before(self.mark.position)

    def run(self) -> None:
        """Take all steps between begin and end."""
        self.sync_entry_logs()
        self.write_index()
        self.apply_index()
        self.write_mark()
        self.remove_journals()
