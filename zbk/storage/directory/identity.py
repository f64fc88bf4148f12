"""Who a directory belongs to: its cookie, its incarnation counter, its lock.

cookie        a file in every directory of a bookie, byte for byte the same in all of them and in
              the metadata store; this module keeps bytes and does not look inside
place         a text file in every directory of a bookie that has several of a kind: which of them
              it is, as "ledger directory 2 of 3". Two disks that were swapped show by it
incarnation   a text file in each ledger directory: how often the bookie has started, and after a
              space the xxh3_64 of these digits, in hexadecimal; durable before the bookie answers
              anything. The highest one counts. An older file has no checksum
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
"""What a crash in the middle of a change leaves; the next change removes it."""


def read_cookie(files: FileSystem, directory: str) -> bytes | None:
    """Return the cookie of a directory, or ``None`` if it has none."""
    return read_file(files, f"{directory}/{COOKIE_NAME}")


def write_cookie(files: FileSystem, directory: str, cookie: bytes) -> None:
    """Put a cookie into a directory that has none.

    Raises:
        CookieMismatchError: it has one already.
    """
    if files.exists(f"{directory}/{COOKIE_NAME}"):
        raise CookieMismatchError(f"{directory} belongs to a bookie already")
    replace_file(files, directory, COOKIE_NAME, cookie)


def read_place(files: FileSystem, directory: str) -> str:
    """Return what a directory says of its place; empty if it says nothing.

    Raises:
        OSError: it cannot be read.
    """
    text = read_file(files, f"{directory}/{PLACE_NAME}") or b""
    return text.decode("utf-8", "replace").strip()


def write_place(files: FileSystem, directory: str, place: str) -> None:
    """Record its place in a directory; an empty one needs no file. Durable when this returns."""
    if place and read_place(files, directory) != place:
        replace_file(files, directory, PLACE_NAME, f"{place}\n".encode())


def next_incarnation(files: FileSystem, *directories: str, floor: int = 0) -> int:
    """Count one more start of the bookie, durably, and return the number: 1 at the first.

    It is above ``floor``, too.

    Raises:
        CorruptRecordError: a file is damaged.
        OSError: one could not be read or written.
    """
    incarnation = 1 + max(floor, *(read_incarnation(files, one) for one in directories))
    write_incarnation(files, *directories, incarnation=incarnation)
    return incarnation


def write_incarnation(files: FileSystem, *directories: str, incarnation: int) -> None:
    """Write the number of starts into each directory. Durable when this returns.

    Raises:
        OSError: it could not be written.
    """
    digits = b"%d" % incarnation
    for directory in directories:
        replace_file(files, directory, INCARNATION_NAME, b"%s %016x\n" % (digits, checksum(digits)))


def read_incarnation(files: FileSystem, directory: str) -> int:
    """Return how often the bookie has started, as far as this directory knows.

    Raises:
        CorruptRecordError: the file is damaged; a lower number than the last one would let what
            was lost with a page cache pass for acknowledged.
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
    """Lock a directory for this process; the file returned holds the lock until it is closed.

    Raises:
        DirectoryInUseError: another process has it.
    """
    lock = files.lock(f"{directory}/{LOCK_NAME}")
    if lock is None:
        raise DirectoryInUseError(f"{directory} is in use by another bookie process")
    return lock
