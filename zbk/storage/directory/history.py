"""Whether the directories of a bookie show the history that the cluster knows.

What a start leaves behind, before the bookie serves:

    ledger directory    the incarnation; the last log mark, which every later start finds
    journal directory   a segment, which a mark points into

So a bookie that has served has, in every directory in service, an incarnation that is not lower
than the one that it was let serve with, a mark, and a segment where a mark wants one. A directory
that lacks them was wiped, is another one, or is an older copy: its silence about an entry means
nothing. A new journal (``zbk bookie renew-dir``) has no segment, and no mark points into it.

What is missing inside a directory that has these is found by the check of that part, not here.

Reads only. Runs in commands for stopped bookies, and at each start.
"""

from collections.abc import Mapping, Sequence

import msgspec

from zbk.storage.directory.identity import read_incarnation
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.last_mark import MARK_NAME, LastMark, LogMark
from zbk.storage.journal.segment import NO_POSITION, segment_ids
from zbk.system.files import FileSystem


class KnownHistory(msgspec.Struct, frozen=True):
    """What the cluster knows; the defaults are those of a bookie that has never served."""

    incarnation: int = 0  # the highest with which it was let serve
    has_served: bool = False  # and nothing was wiped on purpose since

    def __str__(self) -> str:
        served = " and that it has served" if self.has_served else ""
        return f"its incarnation {self.incarnation}{served}"


class MissingHistory(msgspec.Struct, frozen=True):
    """A directory that does not show the history, and why."""

    path: str
    reason: str


def missing_history(
    files: FileSystem,
    journals: Mapping[int, str],
    ledger_dirs: Sequence[str],
    known: KnownHistory,
) -> list[MissingHistory]:
    """Return the directories that lack what the cluster knows.

    Only directories in service are given, journals by number. One of both kinds may be there twice.

    Raises:
        CorruptRecordError: an incarnation or a mark is damaged.
        OSError: something cannot be read.
    """
    found = []
    marks: list[LogMark] = []
    for path in ledger_dirs:
        mark = LastMark(files, path, FailStop()).look()
        if mark is not None:
            marks.append(mark)
        reason = _missing_in_ledger_dir(files, path, known, has_mark=mark is not None)
        if reason:
            found.append(MissingHistory(path, reason))
    for number, path in journals.items():
        if known.has_served and _is_journal_missing(files, path, number, marks):
            found.append(MissingHistory(path, "has no journal"))
    return found


def has_marks(files: FileSystem, ledger_dirs: Sequence[str]) -> bool:
    """Return whether each ledger directory shows by its mark that a start came to its end."""
    return all(files.exists(f"{path}/{MARK_NAME}") for path in ledger_dirs)


def _missing_in_ledger_dir(
    files: FileSystem, path: str, known: KnownHistory, *, has_mark: bool
) -> str:
    incarnation = read_incarnation(files, path)
    if incarnation < known.incarnation:
        told = f"has incarnation {incarnation}" if incarnation else "has no incarnation"
        return told if has_mark else f"{told} and no last log mark"
    return "has no last log mark" if known.has_served and not has_mark else ""


def _is_journal_missing(
    files: FileSystem, path: str, number: int, marks: Sequence[LogMark]
) -> bool:
    if files.exists(path) and segment_ids(files, path):
        return False
    positions = [mark.positions[number] for mark in marks if number < len(mark.positions)]
    return not positions or any(position != NO_POSITION for position in positions)
