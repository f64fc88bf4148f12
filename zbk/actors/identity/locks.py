"""Locks of a bookie's directories, which keep a bookie from running on them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from zbk.storage.directory.identity import lock_directory
from zbk.storage.disk.fail_stop import FailStop
from zbk.system.files import FileSystem


@contextmanager
def locked(files: FileSystem, directories: Sequence[str]) -> Iterator[None]:
    """Hold the locks of directories.

    Raises:
        DirectoryInUseError: a process uses one.
        StorageFailedError: one cannot be locked, for lack of rights for example.
    """
    with ExitStack() as stack:
        for directory in directories:
            with FailStop().guard(directory, "lock"):
                lock = lock_directory(files, directory)
            stack.callback(lock.close)
        yield
