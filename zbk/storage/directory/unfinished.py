"""Whether a ledger directory may be started on, and a note that it may not.

The note says that a command has begun to change the directory, and has not ended. While it is there
no bookie starts on it: with half of an index it would deny what it has acknowledged. The note is
made durable before the first change and removed, durably, after the last one. It is a text file
that holds the command to run again.

Runs in commands for stopped bookies, and once at each start, before anything else is looked at.
"""

from typing import Final

from zbk.errors import BookieError
from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

NOTE_NAME: Final = "unfinished"
WIPED_NAME: Final = "wiped"
_SIZE_MAX: Final = 256


def begin(files: FileSystem, directory: str, command: str) -> None:
    """Note that ``command`` is at work, whatever was noted before. Durable when this returns."""
    replace_file(files, directory, NOTE_NAME, command.encode())


def end(files: FileSystem, directory: str) -> None:
    """Note that nothing is half done any more. Durable when this returns."""
    files.remove(f"{directory}/{NOTE_NAME}")
    files.sync_dir(directory)


def end_as_wiped(files: FileSystem, directory: str) -> None:
    """Note that nothing is half done, and that all that was here is gone. Durable likewise."""
    files.rename(f"{directory}/{NOTE_NAME}", f"{directory}/{WIPED_NAME}")
    files.sync_dir(directory)


def was_wiped(files: FileSystem, directory: str) -> bool:
    """Return whether all that was here is gone."""
    return files.exists(f"{directory}/{WIPED_NAME}")


def forget_wiped(files: FileSystem, directory: str) -> None:
    """Allow a bookie to start that knows, durably, what it has lost. Durable when this returns."""
    files.remove(f"{directory}/{WIPED_NAME}")
    files.sync_dir(directory)


def unfinished_command(files: FileSystem, directory: str) -> str | None:
    """Return the command that has not ended; ``None`` if there is none."""
    command = read_file(files, f"{directory}/{NOTE_NAME}")
    return None if command is None else command[:_SIZE_MAX].decode("utf-8", "replace")


def check_finished(files: FileSystem, directory: str) -> None:
    """Go on only with a directory that no command has left half changed, or wiped.

    Raises:
        BookieError: one has; says which, and the cure.
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
    """Go on only with a ledger directory, of a bookie that has served, that has all of its parts.

    Raises:
        BookieError: one is missing; says the cure.
    """
    index, logs = f"{directory}/index", f"{directory}/logs"
    if not files.exists(index):
        raise BookieError(
            f"{index} is missing, and without it the bookie would deny every entry that it has: "
            "put it back, or make it anew with `zbk bookie rebuild-index`"
        )
    if not files.exists(logs):
        raise BookieError(
            f"{logs} is missing, and with it every entry that the bookie has: put it back, or give "
            "the bookie up with `zbk bookie cookie delete` and make another one in empty "
            "directories"
        )
