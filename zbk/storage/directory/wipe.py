"""Deletes the data of a stopped bookie, in an order in which no crash leaves half of it in use.

A note that keeps the bookie from starting comes first (``directory.unfinished``). Cookies come
last, and only on request. A bookie that keeps its cookie keeps its incarnation and gets a note that
it was wiped: under its old id it would deny entries that it acknowledged. So it does not start
again until it is another bookie, or until its operator says that it was wiped on purpose
(``limbo``).

Source: BookKeeper's ``FormatCommand``.
"""

from collections.abc import Sequence
from typing import Final

from zbk.storage.directory import service_note, unfinished
from zbk.storage.directory.identity import COOKIE_NAME, INCARNATION_NAME, LOCK_NAME, PLACE_NAME
from zbk.system.files import FileSystem

COMMAND: Final = "zbk bookie format"

_NOT_OURS: Final = "lost+found"


def wipe(
    files: FileSystem, directories: Sequence[str], ledger_dirs: Sequence[str], *, with_cookie: bool
) -> None:
    """Delete the data in a bookie's directories, which the caller has locked.

    ``with_cookie``: cookies, too. It may be run again after a crash.

    Raises:
        OSError: something cannot be removed; run it again.
    """
    for directory in ledger_dirs:
        unfinished.begin(files, directory, COMMAND)
    identity = (COOKIE_NAME, PLACE_NAME, INCARNATION_NAME, LOCK_NAME, service_note.NOTE_NAME)
    kept = {*identity, unfinished.NOTE_NAME, _NOT_OURS}
    for directory in directories:
        for name in files.list_dir(directory):
            if name not in kept:
                remove_tree(files, f"{directory}/{name}")
        files.sync_dir(directory)
    if not with_cookie:
        for directory in ledger_dirs:
            unfinished.end_as_wiped(files, directory)
        return
    # the ledger directories last, because they have the note
    for directory in [*(one for one in directories if one not in ledger_dirs), *ledger_dirs]:
        for name in (*identity, unfinished.NOTE_NAME):
            if files.exists(f"{directory}/{name}"):
                files.remove(f"{directory}/{name}")
                files.sync_dir(directory)


def remove_tree(files: FileSystem, path: str) -> None:
    """Remove a file, a link, or a directory and all below it. Links are not followed."""
    try:
        files.remove(path)
    except IsADirectoryError:
        for name in files.list_dir(path):
            remove_tree(files, f"{path}/{name}")
        files.remove_dir(path)
