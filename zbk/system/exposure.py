"""What other users of the machine may do with files and directories of zbk.

Files that zbk creates have mode 0600, and directories 0700. An operator may have made directories
with another mode, moved files, or put a link in their place. An *exposure* is one that matters:
another user could read contents, or replace files. That others may list the names in a directory
is none.

A symbolic link *in* a data directory is worse than an exposure: zbk makes none, and it leads what
the process writes to a place that another user may have chosen. ``link_in`` finds one.

Any thread. Only ``stat`` and listings of directories; nothing is changed.
"""

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

ROOT_UID: Final = 0
NAME_COUNT_MAX: Final = 10_000
"""Names in a directory that are examined."""


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """A path that other users can read or replace, and the remedy."""

    path: str
    why: str
    remedy: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.path} {self.why}: {self.remedy}"


def exposures_of(path: str, uid: int) -> list[Exposure]:
    """Return what others may do with a file or directory that a process of ``uid`` uses.

    A path that does not exist, or cannot be examined, has none.
    """
    try:
        return [*_of_owner(path, uid), *_of_parents(path), *_of_mode(path)]
    except OSError:
        return []


def link_in(folder: str) -> str | None:
    """Return a symbolic link in a folder or below it; ``None`` if there is none.

    The folder itself may be one. Folders that this process may not list are not examined.
    """
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        return entry.path
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return None


def may_all_replace(mode: int) -> bool:
    """Return whether everyone may replace what is in a directory of this mode.

    >>> may_all_replace(0o40777), may_all_replace(0o41777)
    (True, False)
    """
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def is_foreign(owner: int, uid: int) -> bool:
    """Return whether an owner is neither root nor the user of the process.

    A process of root uses the files of all users.
    """
    return uid != ROOT_UID and owner not in (ROOT_UID, uid)


def _of_owner(path: str, uid: int) -> list[Exposure]:
    found = []
    for one, status in ((path, os.lstat(path)), (os.path.realpath(path), os.stat(path))):
        if is_foreign(status.st_uid, uid):
            kind = "is a symbolic link of" if stat.S_ISLNK(status.st_mode) else "belongs to"
            why, remedy = f"{kind} another user, with id {status.st_uid}", f"chown it: {one}"
            found.append(Exposure(path=one, why=why, remedy=remedy))
    return found[:1]


def _of_parents(path: str) -> list[Exposure]:
    parents = {*Path(path).absolute().parents, *Path(path).resolve().parents}
    return [
        Exposure(path=str(one), why="lets everyone replace files", remedy=f"chmod o-w {one}")
        for one in sorted(parents)
        if may_all_replace(os.stat(one).st_mode)
    ]


def _of_mode(path: str) -> list[Exposure]:
    mode = os.stat(path).st_mode
    if not stat.S_ISDIR(mode):
        if not mode & stat.S_IRWXO:
            return []
        why = "may be read or changed by every user"
        return [Exposure(path=path, why=why, remedy=f"chmod o-rwx {path}")]
    if mode & stat.S_IWOTH:
        why = "lets everyone create files"
        return [Exposure(path=path, why=why, remedy=f"chmod o-w {path}")]
    if not mode & stat.S_IXOTH:
        return []
    open_names = []
    with os.scandir(path) as entries:
        for number, entry in enumerate(entries):
            if number >= NAME_COUNT_MAX:
                break
            entry_mode = entry.stat(follow_symlinks=False).st_mode
            if entry_mode & stat.S_IRWXO and not stat.S_ISLNK(entry_mode):
                open_names.append(entry.name)
    if not open_names:
        return []
    why = f"has files that every user may read, {min(open_names)} for one"
    return [Exposure(path=path, why=why, remedy=f"chmod -R o-rwx {path}")]
