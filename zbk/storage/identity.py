"""Who a directory belongs to: its cookie, its incarnation counter, its lock.

cookie        a file in every directory of a bookie, byte for byte the same in all of them and in
              the metadata store; this module keeps bytes and does not look inside
place         a text file in every directory of a bookie that has several of a kind: which of them
              it is, as "ledger directory 2 of 3". Two disks that were swapped show by it
incarnation   a text file in each ledger directory: how often the bookie has started; durable
              before the bookie answers anything. The highest one counts
lock          an ``flock`` on a file, held while the process lives

Each change is: write a new file, fsync it, rename it into place, fsync the directory.
"""

from typing import Final

from zbk.errors import CookieMismatchError, CorruptRecordError, DirectoryInUseError
from zbk.system.files import File, FileSystem

COOKIE_NAME: Final = "cookie"
PLACE_NAME: Final = "place"
INCARNATION_NAME: Final = "incarnation"
LOCK_NAME: Final = "lock"
FILE_SIZE_MAX: Final = 64 * 1024

UNFINISHED_NAMES: Final = (f"{COOKIE_NAME}.new", f"{PLACE_NAME}.new")
"""What a crash in the middle of a change leaves; the next change removes it."""


def read_cookie(files: FileSystem, directory: str) -> bytes | None:
    """Return the cookie of a directory, or ``None`` if it has none."""
    return _read(files, f"{directory}/{COOKIE_NAME}")


def write_cookie(files: FileSystem, directory: str, cookie: bytes) -> None:
    """Put a cookie into a directory that has none.

    Raises:
        CookieMismatchError: it has one already.
    """
    if files.exists(f"{directory}/{COOKIE_NAME}"):
        raise CookieMismatchError(f"{directory} belongs to a bookie already")
    _replace(files, directory, COOKIE_NAME, cookie)


def read_place(files: FileSystem, directory: str) -> str:
    """Return what a directory says of its place; empty if it says nothing.

    Raises:
        OSError: it can not be read.
    """
    return (_read(files, f"{directory}/{PLACE_NAME}") or b"").decode("utf-8", "replace").strip()


def write_place(files: FileSystem, directory: str, place: str) -> None:
    """Have a directory say its place; an empty one needs no file. Durable when this returns."""
    if place and read_place(files, directory) != place:
        _replace(files, directory, PLACE_NAME, f"{place}\n".encode())


def next_incarnation(files: FileSystem, *directories: str) -> int:
    """Count one more start of the bookie, durably, and return the number: 1 at the first.

    Raises:
        CorruptRecordError: a file holds no number.
        OSError: one could not be read or written.
    """
    incarnation = 1 + max(read_incarnation(files, directory) for directory in directories)
    for directory in directories:
        _replace(files, directory, INCARNATION_NAME, b"%d\n" % incarnation)
    return incarnation


def read_incarnation(files: FileSystem, directory: str) -> int:
    """Return how often the bookie has started, as far as this directory knows.

    Raises:
        CorruptRecordError: the file holds no number.
        OSError: it can not be read.
    """
    path = f"{directory}/{INCARNATION_NAME}"
    text = _read(files, path)
    if text is not None and not text.strip().isdigit():
        raise CorruptRecordError(path, 0, f"holds no number but {text[:40]!r}")
    return 0 if text is None else int(text)


def lock_directory(files: FileSystem, directory: str) -> File:
    """Take a directory for this process; the file returned holds the lock until it is closed.

    Raises:
        DirectoryInUseError: another process has it.
    """
    lock = files.lock(f"{directory}/{LOCK_NAME}")
    if lock is None:
        raise DirectoryInUseError(f"{directory} is in use by another bookie process")
    return lock


def _read(files: FileSystem, path: str) -> bytes | None:
    if not files.exists(path):
        return None
    file = files.open(path, write=False)
    try:
        return file.pread(FILE_SIZE_MAX, 0)
    finally:
        file.close()


def _replace(files: FileSystem, directory: str, name: str, value: bytes) -> None:
    new = f"{directory}/{name}.new"
    if files.exists(new):  # left by a crash in the middle of this
        files.remove(new)
    file = files.open(new, create=True)
    try:
        file.pwrite([value], 0)
        file.sync()
    finally:
        file.close()
    files.rename(new, f"{directory}/{name}")
    files.sync_dir(directory)
