"""Who a directory belongs to: its cookie, its incarnation counter, its lock.

cookie        a file in every directory of a bookie, byte for byte the same in all of them and in
              the metadata store; this module keeps bytes and does not look inside
incarnation   a text file in the ledger directory: how often the bookie has started; durable
              before the bookie answers anything
lock          an ``flock`` on a file, held while the process lives

Each change is: write a new file, fsync it, rename it into place, fsync the directory.
"""

from typing import Final

from zbk.errors import CookieMismatchError, CorruptRecordError, DirectoryInUseError
from zbk.system.files import File, FileSystem

COOKIE_NAME: Final = "cookie"
INCARNATION_NAME: Final = "incarnation"
LOCK_NAME: Final = "lock"
FILE_SIZE_MAX: Final = 64 * 1024


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


def next_incarnation(files: FileSystem, directory: str) -> int:
    """Count one more start of the bookie, durably, and return the number: 1 at the first.

    Raises:
        CorruptRecordError: the file holds no number.
    """
    path = f"{directory}/{INCARNATION_NAME}"
    text = _read(files, path)
    if text is not None and not text.strip().isdigit():
        raise CorruptRecordError(path, 0, f"holds no number but {text[:40]!r}")
    incarnation = 1 if text is None else int(text) + 1
    _replace(files, directory, INCARNATION_NAME, b"%d\n" % incarnation)
    return incarnation


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
