"""New files that only their owner can read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

PRIVATE_MODE: Final = 0o600


def open_private(path: str, flags: int) -> int:
    """Open a file, as an ``opener`` of ``open``; a new one is for its owner only."""
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE_MODE)


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file for writing; after the block it is complete and on stable storage.

    If the block fails, the file is removed.

    Raises:
        OSError: the file exists, or cannot be written; it names the file.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
