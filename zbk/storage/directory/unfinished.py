"""The note that a ledger directory is half changed or wiped, and the check at a start.

A command writes the note before it changes the directory, and removes it after the last change,
both durably. While the note exists no bookie starts on the directory: with half an index it would
deny entries that it acknowledged. The note is a text file with the command to run again.

Runs in commands for stopped bookies, and first in each start.
"""

from typing import Final

from zbk.errors import BookieError
from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

NOTE_NAME: Final = "unfinished"
WIPED_NAME: Final = "wiped"
_SIZE_MAX: Final = 256


def begin(files: FileSystem, directory: str, command: str) -> None:
    """Record, durably, that ``command`` changes the directory, in place of an earlier note."""
    replace_file(files, directory, NOTE_NAME, command.encode())


def end(files: FileSystem, directory: str) -> None:
    """Record, durably, that the command has ended."""
    files.remove(f"{directory}/{NOTE_NAME}")
    files.sync_dir(directory)


def end_as_wiped(files: FileSystem, directory: str) -> None:
    """Record, durably, that the command has ended and has deleted all data."""
    files.rename(f"{directory}/{NOTE_NAME}", f"{directory}/{WIPED_NAME}")
    files.sync_dir(directory)


def was_wiped(files: FileSystem, directory: str) -> bool:
    """Return whether all data were deleted."""
    return files.exists(f"{directory}/{WIPED_NAME}")


def forget_wiped(files: FileSystem, directory: str) -> None:
    """Allow a start, durably. The losses of the wipe are on stable storage already."""
    files.remove(f"{directory}/{WIPED_NAME}")
    files.sync_dir(directory)


def unfinished_command(files: FileSystem, directory: str) -> str | None:
    """Return the command that has not ended, or ``None``."""
    command = read_file(files, f"{directory}/{NOTE_NAME}")
    return None if command is None else command[:_SIZE_MAX].decode("utf-8", "replace")


def check_finished(files: FileSystem, directory: str) -> None:
    """Check that no command has left a directory half changed or wiped.

    Raises:
        BookieError: one has; the text names the cure.
    """
    if was_wiped(files, directory):
        raise BookieError(
            f"{directory} was wiped by `zbk bookie format`: under its old id the bookie would deny "
            "every entry that it has acknowledged; start it with `zbk bookie run "
            "--wiped-on-purpose`, and it denies nothing until it has its entries back from its "
            "peers; or make it another bookie with `zbk bookie format --with-cookie` and "
            "`zbk bookie init`"
        )
    command = unfinished_command(files, directory)
    if command is not None:
        raise BookieError(
            f"`{command}` was interrupted while it changed {directory}: "
            "run it again, to its end, before the bookie starts"
        )


def check_whole(files: FileSystem, directory: str) -> None:
    """Check that the ledger directory of a bookie that has served has all of its parts.

    Raises:
        BookieError: one is missing; the text names the cure.
    """
    index, logs = f"{directory}/index", f"{directory}/logs"
    if not files.exists(index):
        raise BookieError(
            f"{index} is missing, and without it the bookie would deny every entry that it has: "
            "put it back, or rebuild it with `zbk bookie rebuild-index`"
        )
    if not files.exists(logs):
        raise BookieError(
            f"{logs} is missing, and with it every entry that the bookie has: put it back, or give "
            "the bookie up with `zbk bookie cookie delete` and make another one in empty "
            "directories"
        )
