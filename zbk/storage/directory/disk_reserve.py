"""The reserve: space that is held back in a directory for the time when its disk is full.

A file of zeros. When it is removed, its space serves fences, LACs, recoveries and checkpoints,
which continue when ordinary adds are refused. The first write without space releases it. It is made
again before the bookie accepts adds again, so a bookie without it is read-only. It has no content,
so a crash cannot damage it.

Any thread may call.

Source: reserved blocks of ext4; BookKeeper's ``minUsableSizeForHighPriorityWrites``.
"""

from contextlib import closing
from threading import Lock
from typing import Final

from zbk.system.files import FileSystem, is_no_space

RESERVE_NAME: Final = "reserve"


class DiskReserve:
    """The reserve of one directory; ``size`` 0 is none."""

    def __init__(self, files: FileSystem, directory: str, size: int) -> None:
        self.directory = directory
        self._files = files
        self._path = f"{directory}/{RESERVE_NAME}"
        self._size = size
        self._lock = Lock()
        self._is_held = not size

    @property
    def is_held(self) -> bool:
        """True while the space is held back."""
        return self._is_held

    @property
    def owed_size(self) -> int:
        """Bytes of free space that the reserve takes when it is made again."""
        return 0 if self._is_held else self._size

    def holds(self, path: str) -> bool:
        """Return whether a path is in this directory."""
        return path == self.directory or path.startswith(f"{self.directory}/")

    def make(self) -> bool:
        """Hold the space back; return whether there was enough.

        Raises:
            OSError: the file cannot be made, for another reason.
        """
        with self._lock:
            if not self._is_held:
                try:
                    self._make()
                except OSError as error:
                    self._remove()
                    if not is_no_space(error):
                        raise
                else:
                    self._is_held = True
            return self._is_held

    def release(self) -> None:
        """Release the space, if there is any."""
        with self._lock:
            if self._size:
                self._is_held = False
                self._remove()

    def _make(self) -> None:
        is_there = self._files.exists(self._path)
        with closing(self._files.open(self._path, create=not is_there)) as file:
            file.allocate(self._size)
            if file.size() > self._size:  # it was made larger once
                file.truncate(self._size)

    def _remove(self) -> None:
        if self._files.exists(self._path):
            self._files.remove(self._path)
