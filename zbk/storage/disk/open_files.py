"""A pool of open files: a handle is opened on demand, and closed when the pool is full.

A handle in use is never closed under its user: the operating system would give its number to
another file, and a read would return that file's bytes. Any thread may call.
"""

from collections import OrderedDict
from contextlib import AbstractContextManager
from itertools import islice
from threading import Lock
from typing import Final

from zbk.errors import OutOfDescriptorsError
from zbk.system.files import File, FileSystem

OPEN_FILES_MAX: Final = 512


class OpenFiles:
    """At most ``open_max`` open files, and one more for each thread that uses one."""

    def __init__(self, files: FileSystem, open_max: int = OPEN_FILES_MAX) -> None:
        assert open_max >= 1, "a file has to be open to be read"
        self._files = files
        self._open_max = open_max
        self._lock = Lock()
        self._by_path: OrderedDict[str, _OpenFile] = OrderedDict()
        self.hit_count = 0  # uses of a file that was open
        self.miss_count = 0  # and of one that had to be opened

    @property
    def open_count(self) -> int:
        """The number of open files."""
        return len(self._by_path)

    def use(self, path: str) -> AbstractContextManager[File]:
        """Return the file at ``path``, for reading, as a context: it stays open until it ends.

        Raises:
            OSError: it cannot be opened.
            OutOfDescriptorsError: too many files are open, and no file of the pool is idle.
        """
        with self._lock:
            opened = self._by_path.get(path)
            if opened is None:
                opened = self._by_path[path] = _OpenFile(self._open(path), self._lock)
                self.miss_count += 1
            else:
                self.hit_count += 1
                self._by_path.move_to_end(path)
            opened.user_count += 1
            if len(self._by_path) > self._open_max:
                self._close_idle(len(self._by_path) - self._open_max)
        return opened

    def forget(self, path: str) -> None:
        """Close a file that was removed or replaced, after its last use ends."""
        with self._lock:
            opened = self._by_path.pop(path, None)
            if opened is None:
                return
            opened.is_forgotten = True
            if not opened.user_count:
                opened.file.close()

    def close(self) -> None:
        """Close all files."""
        for path in list(self._by_path):
            self.forget(path)

    def _open(self, path: str) -> File:
        try:
            return self._files.open(path, write=False)
        except OutOfDescriptorsError:
            self._close_idle(max(1, len(self._by_path) // 2))
            return self._files.open(path, write=False)

    def _close_idle(self, surplus: int) -> None:
        if surplus <= 0:
            return
        idle = (path for path, opened in self._by_path.items() if not opened.user_count)
        for path in list(islice(idle, surplus)):  # the oldest: few are in use, so few are seen
            self._by_path.pop(path).file.close()


class _OpenFile:
    """An open file, and how many use it; leaving its context ends one use."""

    __slots__ = ("_lock", "file", "is_forgotten", "user_count")

    def __init__(self, file: File, lock: Lock) -> None:
        self._lock = lock
        self.file = file
        self.user_count = 0
        self.is_forgotten = False

    def __enter__(self) -> File:
        return self.file

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self.user_count -= 1
            if self.is_forgotten and not self.user_count:
                self.file.close()
