"""What a start does about index files that are lost (``zbk.storage.directory.lost_files``).

check_noted      their ledgers are in limbo, or the start ends
remove_short     what is left of a file goes
ledgers_to_find  which ledgers the entry logs may have
find_again       their index is rebuilt, and those that are whole again leave limbo
"""

from zbk.errors import BookieError
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.directory.lost_files import LostFiles
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.index.index_file import IndexPath
from zbk.storage.tools.reindex import Reindex
from zbk.system.event_log import EventLog
from zbk.system.files import FileSystem

LOG = EventLog("zbk.bookie")


def check_noted(lost: LostFiles, limbo: LimboFile) -> None:
    """Check that no ledger will be denied whose index file is missing.

    Raises:
        BookieError: one would be.
    """
    unnoted = [one for one in lost.ledger_ids if one not in limbo.lost_indexes]
    if unnoted:
        raise BookieError(
            f"{lost.path} has lost the index files of {len(unnoted)} ledgers, {unnoted[0]} "
            "among them, and there is no record that they must not be denied: start the "
            "bookie with `zbk bookie run`"
        )


def remove_short(files: FileSystem, lost: LostFiles) -> None:
    """Remove index files that end inside their header: they have no content.

    Raises:
        OSError: one cannot be removed.
    """
    for ledger_id in lost.short_ids:
        place = IndexPath.of(f"{lost.path}/index", ledger_id)
        files.remove(place.path)
        files.sync_dir(place.directory)


def ledgers_to_find(lost: LostFiles, limbo: LimboFile) -> LedgerRanges:
    """Return the ledgers whose index may be rebuilt from the entry logs of the directory."""
    if lost.census_fault:  # any lost ledger may have lived here
        here = LedgerRanges().with_ids(lost.here)
        return limbo.lost_indexes.without(here).without(lost.deleted)
    return LedgerRanges().with_ids(lost.ledger_ids)


def find_again(directory: str, reindex: Reindex, wanted: LedgerRanges, limbo: LimboFile) -> None:
    """Rebuild the index of ``wanted``, and clear the ledgers that are whole again.

    Raises:
        ZbkError, OSError: as ``Reindex``.
        StorageFailedError: the limbo file cannot be written; ``NoSpaceError`` among them.
    """
    found = reindex.run()
    whole = LedgerRanges()
    if not found.doubt:
        whole = wanted.without(LedgerRanges().with_ids(found.doubtful_ids))
        if whole.range_count:
            limbo.clear_lost_indexes(whole)
    LOG.error(
        "index.rebuilt",
        "%(directory)s: the index of %(ledger_count)d ledgers was rebuilt from the entry "
        "logs, with %(entry_count)d entries; %(whole_count)d ledgers that lost their index "
        "have all entries again%(rest)s",
        directory=directory,
        ledger_count=found.ledger_count,
        entry_count=found.entry_count,
        whole_count=whole.ledger_count,
        rest=f"; the others stay in limbo: {found.doubt}" if found.doubt else "",
    )
