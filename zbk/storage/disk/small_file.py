"""Small files: read whole, and replaced whole by a synced one.

    remove    a file ``<name>.new`` that an earlier crash left
    create    the new content, under that name
    sync
    rename    over the old file
    sync_dir

A crash leaves the old content or the new one. A step that fails leaves the old one, or the new one
under a name that may be in the page cache only; the space of an unfinished file is released.

The module that keeps a file defines its content and the meaning of damage. Any thread, one at a
time for a file.
"""

from contextlib import closing, suppress
from typing import Final

from zbk.system.files import FileSystem

NEW_SUFFIX: Final = ".new"

SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes that are read at most: a longer file is not zbk's, and fails its checks."""


def read_file(files: FileSystem, path: str) -> bytes | None:
    """Return the content of a file, up to ``SIZE_MAX``; ``None`` if it does not exist.

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
    """Make or replace a file, durably.

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
        with suppress(OSError):  # the next attempt removes it
            files.remove(new_path)
        raise
    finally:
        file.close()
    files.sync_dir(directory)
