"""Open files, shared and bounded: a handle is opened when needed, closed when the pool is full.

A handle in use is never closed under its user: the operating system would give its number to
another file, and a read would return that file's bytes. Any thread may call.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import Final

from zbk.errors import OutOfDescriptorsError
from zbk.system.files import File, FileSystem

OPEN_FILES_MAX: Final = 512


class OpenFiles:
    """At most ``open_max`` files open, not counting more than one a thread that uses it."""

    def __init__(self, files: FileSystem, open_max: int = OPEN_FILES_MAX) -> None:
        assert open_max >= 1, "a file has to be open to be read"
        self._files = files
        self._open_max = open_max
        self._lock = Lock()
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self.hit_count = 0  # uses of a file that was open
        self.miss_count = 0  # and of one that had to be opened

    @property
    def open_count(self) -> int:
        """How many files are open."""
        return len(self._slots)

    @contextmanager
    def use(self, path: str) -> Iterator[File]:
        """Lend the file at ``path``, for reading, until the block ends.

        Raises:
            OSError: it cannot be opened.
            OutOfDescriptorsError: too many files are open, none of them an idle one of these.
        """
        with self._lock:
            slot = self._slots.get(path)
            if slot is None:
                slot = self._slots[path] = _Slot(self._open(path))
                self.miss_count += 1
            else:
                self.hit_count += 1
            slot.user_count += 1
            self._slots.move_to_end(path)
            self._close_idle(len(self._slots) - self._open_max)
        try:
            yield slot.file
        finally:
            with self._lock:
                slot.user_count -= 1
                if slot.is_forgotten and not slot.user_count:
                    slot.file.close()

    def forget(self, path: str) -> None:
        """Close a file that was removed or replaced, after its last use ends."""
        with self._lock:
            slot = self._slots.pop(path, None)
            if slot is None:
                return
            slot.is_forgotten = True
            if not slot.user_count:
                slot.file.close()

    def close(self) -> None:
        """Close all files."""
        for path in list(self._slots):
            self.forget(path)

    def _open(self, path: str) -> File:
        try:
            return self._files.open(path, write=False)
        except OutOfDescriptorsError:
            self._close_idle(max(1, len(self._slots) // 2))
            return self._files.open(path, write=False)

    def _close_idle(self, surplus: int) -> None:
        if surplus <= 0:
            return
        idle = (path for path, slot in self._slots.items() if not slot.user_count)
        for path in list(islice(idle, surplus)):  # the oldest: few are in use, so few are seen
            self._slots.pop(path).file.close()


class _Slot:
    __slots__ = ("file", "is_forgotten", "user_count")

    def __init__(self, file: File) -> None:
        self.file = file
        self.user_count = 0
        self.is_forgotten = False
