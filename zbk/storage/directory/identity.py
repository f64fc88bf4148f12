"""The owner of a directory: cookie, place, incarnation counter, lock.

cookie        a file in every directory of a bookie, byte for byte the same in all of them and in
              the metadata store; this module does not interpret the bytes
place         a text file in every directory of a bookie that has several of a kind: the number of
              the directory, as "ledger directory 2 of 3". It shows that two disks were swapped
incarnation   a text file in each ledger directory: the number of starts of the bookie, and after a
              space the xxh3_64 of these digits, in hexadecimal; durable before the bookie answers
              a request. The highest one counts. An older file has no checksum
lock          an ``flock`` on a file, held while the process lives

Each file is replaced whole (``zbk.storage.disk.small_file``).
"""

from typing import Final

from zbk.errors import CookieMismatchError, CorruptRecordError, DirectoryInUseError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.small_file import NEW_SUFFIX, read_file, replace_file
from zbk.system.files import File, FileSystem

COOKIE_NAME: Final = "cookie"
PLACE_NAME: Final = "place"
INCARNATION_NAME: Final = "incarnation"
LOCK_NAME: Final = "lock"

UNFINISHED_NAMES: Final = (COOKIE_NAME + NEW_SUFFIX, PLACE_NAME + NEW_SUFFIX)
"""Files that a crash during a change leaves; the next change removes them."""


def read_cookie(files: FileSystem, directory: str) -> bytes | None:
    """Return the cookie of a directory, or ``None`` if it has none."""
    return read_file(files, f"{directory}/{COOKIE_NAME}")


def write_cookie(files: FileSystem, directory: str, cookie: bytes) -> None:
    """Write a cookie into a directory that has none.

    Raises:
        CookieMismatchError: it has one already.
    """
    if files.exists(f"{directory}/{COOKIE_NAME}"):
        raise CookieMismatchError(f"{directory} belongs to a bookie already")
    replace_file(files, directory, COOKIE_NAME, cookie)


def replace_cookie(files: FileSystem, directory: str, cookie: bytes) -> None:
    """Write a cookie into a directory, durably, in place of an earlier one of the same bookie.

    Raises:
        OSError: it could not be written.
    """
    replace_file(files, directory, COOKIE_NAME, cookie)


def read_place(files: FileSystem, directory: str) -> str:
    """Return the place in a directory; empty if it has none.

    Raises:
        OSError: it cannot be read.
    """
    text = read_file(files, f"{directory}/{PLACE_NAME}") or b""
    return text.decode("utf-8", "replace").strip()


def write_place(files: FileSystem, directory: str, place: str) -> None:
    """Write a place into a directory, durably; an empty one needs no file."""
    if place and read_place(files, directory) != place:
        replace_file(files, directory, PLACE_NAME, f"{place}\n".encode())


def next_incarnation(files: FileSystem, *directories: str, floor: int = 0) -> int:
    """Count one more start of the bookie, durably; return the number, 1 for the first.

    The number is above ``floor``.

    Raises:
        CorruptRecordError: a file is damaged.
        OSError: one could not be read or written.
    """
    incarnation = 1 + max(floor, *(read_incarnation(files, one) for one in directories))
    write_incarnation(files, *directories, incarnation=incarnation)
    return incarnation


def write_incarnation(files: FileSystem, *directories: str, incarnation: int) -> None:
    """Write the number of starts into each directory, durably.

    Raises:
        OSError: it could not be written.
    """
    digits = b"%d" % incarnation
    for directory in directories:
        replace_file(files, directory, INCARNATION_NAME, b"%s %016x\n" % (digits, checksum(digits)))


def read_incarnation(files: FileSystem, directory: str) -> int:
    """Return the number of starts in this directory.

    Raises:
        CorruptRecordError: the file is damaged; with a lower number than the last one, entries that
            were lost with a page cache would count as acknowledged.
        OSError: it cannot be read.
    """
    path = f"{directory}/{INCARNATION_NAME}"
    text = read_file(files, path)
    if text is None:
        return 0
    digits, separator, stored = text.removesuffix(b"\n").partition(b" ")
    is_whole = not separator or stored == b"%016x" % checksum(digits)
    if not digits.isdigit() or not is_whole or not text.endswith(b"\n"):
        raise CorruptRecordError(path, 0, f"holds no number of starts but {text[:40]!r}")
    return int(digits)


def lock_directory(files: FileSystem, directory: str) -> File:
    """Lock a directory for this process; return a file that holds the lock until it is closed.

    Raises:
        DirectoryInUseError: another process holds it.
    """
    lock = files.lock(f"{directory}/{LOCK_NAME}")
    if lock is None:
        raise DirectoryInUseError(f"{directory} is in use by another bookie process")
    return lock
