"""What programs open on a simulated disk: files, the files of locks, all files of a directory.

Each counts with its disk, is dead after a crash of it, and fails where a fault of the disk says so.
"""

import errno
from collections.abc import Sequence
from random import Random
from typing import Protocol

from tests.support.simulated_inode import Inode
from zbk.system.files import Buffer


class DiskOfFiles(Protocol):
    """What an open file needs of its disk."""

    life: int
    operation_count: int
    open_count: int
    capacity: int | None
    sync_until: int | None

    def next_change(self) -> int:
        """Count one change of a file's content."""
        ...

    def step(self) -> None:
        """Count one operation; crash if it is the one."""
        ...

    def fail_on(self, operation: str, path: str) -> None:
        """Raise what a fault says, once."""
        ...

    def free_size(self, path: str) -> int:
        """Return how many bytes fit in."""
        ...

    def unlock(self, path: str) -> None:
        """Release a lock."""
        ...

    def inode(self, path: str) -> Inode:
        """Return what has a name."""
        ...

    def paths(self, part: str = "") -> list[str]:
        """Return the paths of all files with ``part`` in them, sorted."""
        ...


class SimulatedFile:
    """An open file; dead after a crash."""

    def __init__(self, disk: DiskOfFiles, inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life
        self._path = path
        self.is_open = True
        disk.open_count += 1

    @property
    def path(self) -> str:
        return self._path

    def pread(self, size: int, offset: int) -> bytes:
        if self._life != self._disk.life or not self.is_open:
            self._check_alive()
        self._disk.fail_on("pread", self._path)
        return bytes(self._inode.visible[offset : offset + size])

    def skip_zeros(self, offset: int) -> int:
        rest = self.pread(self.size(), offset)
        return offset + len(rest) - len(rest.lstrip(b"\0"))

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        self._check_alive()
        data = b"".join(buffers)
        try:
            self._disk.fail_on("pwrite", self._path)
        except OSError:  # a short write comes first
            self._inode.write(self._disk.next_change(), offset, data[: len(data) // 2])
            raise
        if self._disk.capacity is not None:
            self._write_what_fits(offset, data)
        self._inode.write(self._disk.next_change(), offset, data)
        self._disk.step()  # behind: the bytes may reach the platter
        return len(data)

    def _write_what_fits(self, offset: int, data: bytes) -> None:
        """Return if all of it fits; else write what does, and fail."""
        size = len(self._inode.visible)
        room = size + self._disk.free_size("")
        if offset + len(data) > max(room, size):
            if room > offset:
                self._inode.write(self._disk.next_change(), offset, data[: room - offset])
            raise OSError(errno.ENOSPC, "the simulated disk is full", self._path)

    def sync(self) -> None:
        self._check_alive()
        try:
            self._disk.fail_on("sync", self._path)
        except OSError:  # the pages are clean now, and the platter has some of them
            self._inode.lose(Random(self._disk.operation_count), 0.5, is_torn_anywhere=False)
            raise
        self._disk.step()
        self._inode.sync(self._disk.sync_until)

    def allocate(self, size: int) -> None:
        self._check_alive()
        self._disk.fail_on("allocate", self._path)
        if size > len(self._inode.visible) + self._disk.free_size(""):
            raise OSError(errno.ENOSPC, "the simulated disk is full", self._path)
        if size > len(self._inode.visible):
            self._inode.resize(self._disk.next_change(), size)
        self._disk.step()

    def truncate(self, size: int) -> None:
        self._check_alive()
        self._disk.fail_on("truncate", self._path)
        self._inode.resize(self._disk.next_change(), size)
        self._disk.step()

    def size(self) -> int:
        self._check_alive()
        return len(self._inode.visible)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            if self._life == self._disk.life:
                self._disk.open_count -= 1

    def _check_alive(self) -> None:
        assert self._life == self._disk.life, "a file of before the crash"
        if not self.is_open:
            raise OSError(errno.EBADF, "closed", self._path)


class LockFile(SimulatedFile):
    """The file of a lock, which is held until it is closed."""

    def close(self) -> None:
        super().close()
        if self._life == self._disk.life:
            self._disk.unlock(self._path)


class FilesTogether:
    """All files below a directory, to be synced at once; a real disk syncs others, too."""

    def __init__(self, disk: DiskOfFiles, path: str) -> None:
        self._disk = disk
        self._life = disk.life
        self._path = path
        disk.open_count += 1

    def sync(self) -> None:
        inodes = [self._disk.inode(path) for path in self._disk.paths(f"{self._path}/")]
        try:
            self._disk.fail_on("sync_disk", self._path)
        except OSError:
            for inode in inodes:
                inode.lose(Random(self._disk.operation_count), 0.5, is_torn_anywhere=False)
            raise
        self._disk.step()
        for inode in inodes:
            inode.sync(self._disk.sync_until)

    def close(self) -> None:
        if self._life == self._disk.life:
            self._disk.open_count -= 1
