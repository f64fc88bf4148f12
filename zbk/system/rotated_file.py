"""A private file that is appended to, and rotated by size.

``path`` is written to; when it is full it becomes ``path.1``, that one ``path.2``, up to a number
of files. Several processes may append to one path: each locks the file for an append, and the one
that finds it full rotates it. A line is whole in one file.

The files have mode 0600. A symbolic link, or a file that others may use, is refused.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class RotatedFile:
    """The file at ``path``, and those that it becomes. One thread at a time."""

    def __init__(self, path: Path, size_max: int, file_count: int) -> None:
        self.path = path
        self._size_max = size_max
        self._file_count = file_count

    def append(self, data: bytes) -> None:
        """Append whole lines, or none.

        Raises:
            OSError: it cannot be written, or others may read it. It names the file.
        """
        with self._opened(len(data)) as descriptor:
            left = memoryview(data)
            try:
                while left:
                    left = left[os.write(descriptor, left) :]
            except OSError:
                _take_back(descriptor, len(data) - len(left))
                raise

    @contextmanager
    def _opened(self, size: int) -> Iterator[int]:
        """Yield the locked descriptor of a file with room for so many bytes."""
        descriptor = self._locked(size)
        try:
            yield descriptor
        except OSError as error:
            error.filename = error.filename or str(self.path)
            raise
        finally:
            os.close(descriptor)  # and unlock it

    def _locked(self, size: int) -> int:
        """Return the locked descriptor of a file with room for so many bytes."""
        while True:
            descriptor = self._open()
            try:
                if self._is_ready(descriptor, size):
                    return descriptor
            except BaseException:  # the lock would stop all others, and this process, for good
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_ready(self, descriptor: int, size: int) -> bool:
        """Lock a file; return whether it has room. Rotate it if it has not."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        own = os.fstat(descriptor)
        if not self._is_there(own):
            return False  # another process has rotated it meanwhile
        if not own.st_size or own.st_size + size <= self._size_max:
            return True
        os.fsync(descriptor)
        self._rotate()
        return False

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path, flags, 0o600)
        own = os.fstat(descriptor)
        if stat.S_ISREG(own.st_mode) and (own.st_uid != os.geteuid() or own.st_mode & 0o077):
            os.close(descriptor)
            reason = "belongs to another user, or others may use it: chmod 600"
            raise PermissionError(1, reason, str(self.path))
        return descriptor

    def _is_there(self, own: os.stat_result) -> bool:
        """Return whether ``path`` is still the file that was opened."""
        with suppress(FileNotFoundError):
            return os.path.samestat(own, self.path.stat(follow_symlinks=False))
        return False

    def _rotate(self) -> None:
        for number in range(self._file_count - 1, 0, -1):
            older = self._numbered(number - 1)
            with suppress(FileNotFoundError):
                older.replace(self._numbered(number))
        if self._file_count == 1:
            self.path.unlink()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def _take_back(descriptor: int, size: int) -> None:
    """Remove the last bytes of a locked file: a line that ends there would begin the next one."""
    own = os.fstat(descriptor)
    if size and stat.S_ISREG(own.st_mode):
        with suppress(OSError):
            os.ftruncate(descriptor, own.st_size - size)
