"""Locks of a bookie's directories, which keep a bookie from running on them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from zbk.storage.directory.identity import lock_directory
from zbk.system.files import FileSystem


@contextmanager
def locked(files: FileSystem, directories: Sequence[str]) -> Iterator[None]:
    """Hold the locks of directories.

    Raises:
        DirectoryInUseError: a process uses one.
    """
    with ExitStack() as stack:
        for directory in directories:
            stack.callback(lock_directory(files, directory).close)
        yield
