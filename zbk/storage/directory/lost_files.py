"""The files that are missing in a ledger directory, compared with its census.

    index file missing    the census has its ledger, and the ledger was not deleted
    index file too short  it ends inside its header, as a file-system check may leave it
    log missing           the census has it
    log too short         the file is shorter than its size in the census or the last mark
    census lost           damaged, or missing although the last mark notes one: then each ledger
                          without an index file may have lost it

A ledger whose index file is missing is *lost* until it is in limbo (``zbk.durability.limbo``),
where it stays even if the census is lost. This module changes nothing.

Cost: a walk over the directories of the index, and the sizes of its files and of the logs. Damage
inside a file is found by reads, which fail, and by the scrubber.

Source: the census is zbk's. BookKeeper takes a missing index file for a ledger that it never had.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.small_file import file_size
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.index.census import LOG_COUNT_MAX, Census, Counted
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.index.index_file import IndexPath, ledger_ids
from zbk.storage.index.index_page import INDEX_HEADER_SIZE
from zbk.storage.journal.last_mark import LastMark, LogMark
from zbk.system.files import FileSystem

SCOPE_RANGE_COUNT_MAX: Final = 65_536
"""Ranges of lost ledgers. With more, all ledgers from the first to the last count as lost."""


class LostLog(msgspec.Struct, frozen=True):
    """An entry log that is missing, or shorter than it was."""

    log_id: int
    path: str
    size: int | None  # in bytes; None: the file is missing
    least_size: int  # bytes that it had at least


class LostFiles(msgspec.Struct, frozen=True):
    """The missing files of one directory."""

    path: str
    ledger_ids: tuple[int, ...] = ()  # with a missing or short index file, ascending
    short_ids: tuple[int, ...] = ()  # of these, those with a file
    logs: tuple[LostLog, ...] = ()
    census_fault: str = ""  # why the census is lost; empty: it is not
    here: frozenset[int] = frozenset()  # ledgers that have an index file, not too short
    deleted: LedgerRanges = LedgerRanges()
    known_sizes: Mapping[int, int] = {}  # least bytes of each log, as far as is known
    has_all_logs: bool = False  # ``known_sizes`` has all logs
    has_gaps: bool = False  # a census was lost, now or before

    @property
    def least_sizes(self) -> Mapping[int, int] | None:
        """The least bytes of each log; ``None``: there may have been other logs."""
        return self.known_sizes if self.has_all_logs else None

    @property
    def is_any(self) -> bool:
        """True if anything is missing."""
        return bool(self.ledger_ids or self.logs or self.census_fault)


def look(files: FileSystem, directory: str, owner: bytes) -> LostFiles:
    """Return the missing files. The directory has served, or is empty; no command changes it.

    Raises:
        CorruptRecordError: the last mark, or the note of deleted ledgers, is damaged.
        CookieMismatchError: the files are another bookie's.
        OSError: something cannot be read.
    """
    root, log_dir = f"{directory}/index", f"{directory}/logs"
    deleted = DeletedLedgers(files, directory, owner=owner, fail_stop=FailStop())
    deleted.load()
    mark = LastMark(files, directory, FailStop()).look()
    counted, fault = _census(files, directory, owner, mark)
    known = counted or Counted()
    sizes = _least_sizes(known, mark)
    is_full = len(known.log_sizes) >= LOG_COUNT_MAX
    has_all_logs = counted is not None and not known.has_gaps and not is_full
    found = ledger_ids(files, root) if files.exists(root) else []
    short = [
        one for one in found if _is_shorter(files, IndexPath.of(root, one).path, INDEX_HEADER_SIZE)
    ]
    here = frozenset(found).difference(short)
    lost = {one for one in short if one not in deleted.noted}
    for first, last in zip(known.ledgers.firsts, known.ledgers.lasts, strict=True):
        lost.update(
            one for one in range(first, last + 1) if one not in here and one not in deleted.noted
        )
    return LostFiles(
        path=directory,
        ledger_ids=tuple(sorted(lost)),
        short_ids=tuple(short),
        logs=tuple(_lost_logs(files, log_dir, sizes)),
        census_fault=fault,
        here=here,
        deleted=deleted.noted,
        known_sizes=sizes,
        has_all_logs=has_all_logs,
        has_gaps=bool(fault) or known.has_gaps,
    )


def scope_of(lost: Iterable[LostFiles], bound: int) -> LedgerRanges:
    """Return the ledgers that may have lost their index; ``bound`` is the cluster's next id.

    >>> scope_of([LostFiles("/l", ledger_ids=(3, 4, 9))], 20)
    LedgerRanges(firsts=(3, 9), lasts=(4, 9))
    >>> scope_of([LostFiles("/l", census_fault="is damaged", here=frozenset({1}))], 4)
    LedgerRanges(firsts=(0, 2), lasts=(0, 3))
    """
    every = list(lost)
    scope = LedgerRanges().with_ids(one for some in every for one in some.ledger_ids)
    if any(some.census_fault for some in every):
        known = LedgerRanges().with_ids(one for some in every for one in some.here)
        for some in every:
            known = known.with_ranges(zip(some.deleted.firsts, some.deleted.lasts, strict=True))
        scope = scope.with_ranges(known.gaps(bound))
    if scope.range_count > SCOPE_RANGE_COUNT_MAX:
        scope = LedgerRanges((scope.firsts[0],), (scope.lasts[-1],))
    return scope


def _least_sizes(counted: Counted, mark: LogMark | None) -> dict[int, int]:
    """Return the least bytes of each log, 0 if that is unknown."""
    sizes = dict(counted.log_sizes)
    if mark is not None and mark.entry_log_size:
        sizes[mark.entry_log_id] = max(sizes.get(mark.entry_log_id, 0), mark.entry_log_size)
    return sizes


def _census(
    files: FileSystem, directory: str, owner: bytes, mark: LogMark | None
) -> tuple[Counted | None, str]:
    """Return the census, and the reason if it is lost."""
    try:
        counted = Census(files, directory, owner=owner, fail_stop=FailStop()).load()
    except CorruptRecordError as error:
        return None, error.reason
    is_missing = counted is None and mark is not None and mark.has_census
    return counted, "is missing" if is_missing else ""


def _lost_logs(files: FileSystem, directory: str, sizes: Mapping[int, int]) -> Iterable[LostLog]:
    found = set(log_ids(files, directory)) if files.exists(directory) else set()
    for log_id, least_size in sorted(sizes.items()):
        path = log_path(directory, log_id)
        if log_id not in found:
            yield LostLog(log_id, path, None, least_size)
        elif least_size and _is_shorter(files, path, least_size):
            yield LostLog(log_id, path, file_size(files, path), least_size)


def _is_shorter(files: FileSystem, path: str, size: int) -> bool:
    """Return whether a file is too short; false if it cannot be opened, which its reader meets."""
    try:
        return file_size(files, path) < size
    except OSError:
        return False
