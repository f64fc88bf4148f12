"""Small files that say one thing each: read whole, and replaced whole by a synced one.

    remove    what a crash in the middle of this has left under ``<name>.new``
    create    the new content, under that name
    sync
    rename    over the old one
    sync_dir

A crash leaves the old content or the new one. A step that fails leaves the old one, or the new one
under a name that may be in the page cache only; the room that the rest has taken is given back.

What is in a file, and what its damage means, says the module that keeps it. Any thread, one at a
time for a file.
"""

from contextlib import closing, suppress
from typing import Final

from zbk.system.files import FileSystem

NEW_SUFFIX: Final = ".new"

SIZE_MAX: Final = 4 * 1024 * 1024
"""More is not read: a file that is longer is not one of ours, and fails its checks."""


def read_file(files: FileSystem, path: str) -> bytes | None:
    """Return what a file holds, up to ``SIZE_MAX``; ``None`` if it is not there.

    Raises:
        OSError: it cannot be read.
    """
    if not files.exists(path):
        return None
    with closing(files.open(path, write=False)) as file:
        return file.pread(min(file.size(), SIZE_MAX), 0)


def file_size(files: FileSystem, path: str) -> int:
    """Return the bytes of a file, small or not.

    Raises:
        OSError: it cannot be opened.
    """
    with closing(files.open(path, write=False)) as file:
        return file.size()


def replace_file(files: FileSystem, directory: str, name: str, content: bytes) -> None:
    """Make a file, or put another one in its place. Durable when this returns.

    Raises:
        OSError: it could not be written.
    """
    path = f"{directory}/{name}"
    new_path = path + NEW_SUFFIX
    if files.exists(new_path):
        files.remove(new_path)
    file = files.open(new_path, create=True)
    try:
        file.pwrite([content], 0)
        file.sync()
        files.rename(new_path, path)
    except OSError:
        with suppress(OSError):  # it is removed before the next attempt, at the latest
            files.remove(new_path)
        raise
    finally:
        file.close()
    files.sync_dir(directory)
