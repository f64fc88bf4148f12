"""The comparison of a bookie's directories with the history that the cluster knows.

A start leaves this in the directories before the bookie serves:

    ledger directory    the incarnation; the last log mark, which every later start finds
    journal directory   a segment, into which a mark points

So a bookie that has served has, in every directory in service, an incarnation that is not lower
than the last one that was allowed to serve, a mark, and a segment where a mark points at one. A
directory that lacks them was wiped, is another directory, or is an older copy: that an entry is
absent there means nothing. A new journal (``zbk bookie renew-dir``) has no segment, and no mark
points into it.

Parts that are missing inside such a directory are found by the checks of these parts.

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
    """The history in the cluster; the defaults are those of a bookie that has never served."""

    incarnation: int = 0  # the highest that was allowed to serve
    has_served: bool = False  # and was not wiped on purpose since

    def __str__(self) -> str:
        served = " and that it has served" if self.has_served else ""
        return f"its incarnation {self.incarnation}{served}"


class MissingHistory(msgspec.Struct, frozen=True):
    """A directory that does not show the history, and the reason."""

    path: str
    reason: str


def missing_history(
    files: FileSystem,
    journals: Mapping[int, str],
    ledger_dirs: Sequence[str],
    known: KnownHistory,
) -> list[MissingHistory]:
    """Return the directories that lack what the cluster knows.

    The arguments are directories in service, journals by number. One directory may be of both
    kinds.

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
    """Return whether each ledger directory has a mark, which shows that a start was complete."""
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
