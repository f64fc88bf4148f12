"""Private files: keys and passwords, which only their owner may have written and may read.

A file is refused if another user of the machine could have read it, or could replace it:

    its mode          other users may read, write or execute it
    its owner         is neither this user nor root
    a symbolic link   on the way to it belongs to someone who is neither
    a directory       that leads to it, or to such a link, lets everyone replace files

Its group may read it: container platforms mount secrets so, behind links that belong to root. In a
directory with the sticky bit, like ``/tmp``, users replace only their own files. A process of
root may use the file of any owner, because root reads everything as it is.

Any thread.
"""

import os
import stat
from pathlib import Path
from typing import Final

from zbk.errors import KeyFileError
from zbk.system.exposure import is_foreign, may_all_replace

LINK_COUNT_MAX: Final = 40
"""As in Linux, which refuses longer chains."""


def read_private(path: str | Path, size_max: int) -> bytes:
    """Return the first ``size_max`` bytes of a private file.

    Raises:
        KeyFileError: it cannot be read, or others may read or replace it.
    """
    try:
        with Path(path).open("rb") as file:
            why = why_unsafe(Path(path), os.fstat(file.fileno()), os.geteuid())
            if why:
                raise KeyFileError(str(path), why)
            return file.read(size_max)
    except OSError as error:
        raise KeyFileError(str(path), error.strerror or str(error)) from error


def why_unsafe(path: Path, status: os.stat_result, uid: int) -> str:
    """Return why a private file with this status is refused by a process of ``uid``; "" if not.

    Raises:
        OSError: a directory on the way to it cannot be examined.
    """
    if stat.S_IMODE(status.st_mode) & stat.S_IRWXO:
        return f"other users of this machine may read it: run `chmod 600 {path}`, and use a new key"
    if is_foreign(status.st_uid, uid):
        return (
            f"it belongs to another user, with id {status.st_uid}: run `chown $USER {path}` if you "
            "trust it"
        )
    for link in _links(path):
        owner = link.lstat().st_uid
        if is_foreign(owner, uid):
            return f"the symbolic link {link} belongs to another user, with id {owner}"
    for folder in _folders(path):
        if may_all_replace(folder.stat().st_mode):
            return f"everyone may replace it: run `chmod o-w {folder}`, and use a new key"
    return ""


def _links(path: Path) -> list[Path]:
    """Return the links that lead from a path to its file, of the last name only."""
    found: list[Path] = []
    while path.is_symlink() and len(found) < LINK_COUNT_MAX:
        found.append(path)
        path = path.parent / path.readlink()
    return found


def _folders(path: Path) -> set[Path]:
    """Return the directories that lead to a file, and to the links to it."""
    ways = [*_links(path), path, path.resolve()]
    return {folder for one in ways for folder in one.absolute().parents}
