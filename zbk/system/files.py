"""Files as a port: the operations that storage uses, and their implementation on Linux.

``zbk.storage`` uses a ``FileSystem``. ``OsFiles`` is the real one; ``tests.support`` has one that
loses unsynced bytes, tears writes and fails on demand. Paths are strings.

Errors are ``OSError``, as the operating system raises them; storage translates them. An fsync
raises ``FsyncError``: whatever its number, bytes may be lost, and no second fsync reports it. Any
thread may call; a handle belongs to the code that opened it.

A lack of descriptors is not an ``OSError`` but an ``OutOfDescriptorsError``: it says nothing about
the file, and no handler of ``OSError`` must treat it as damage. ``OsFiles`` first waits for a
descriptor: the owner of too many, usually connections, closes some meanwhile. Each operation that
opens something may raise it: ``open``, ``list_dir``, ``make_dirs``, ``sync_dir``, ``open_disk``,
``lock``. Nothing has changed then, but names created or removed before are not durable yet.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, TypeVar

from zbk.errors import OutOfDescriptorsError
from zbk.system.clock import monotonic_ms, sleep_ms
from zbk.system.descriptors import is_no_descriptor
from zbk.system.disk_sync import can_sync_disk, sync_disk
from zbk.system.zero_bytes import skip_zeros

T = TypeVar("T")

DESCRIPTOR_WAIT_MS: Final = 1_000
"""Time to wait for a descriptor, from the first failure on."""

_DESCRIPTOR_POLL_MS: Final = 5

Buffer: TypeAlias = bytes | bytearray | memoryview


class FsyncError(OSError):
    """A failed fsync. It is never tried again, not even after a lack of space."""


def is_no_space(error: OSError) -> bool:
    """Return whether an error is a lack of space, which may end when space is freed."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return is_full and not isinstance(error, FsyncError)


class File(Protocol):
    """An open file. Offsets and sizes in bytes."""

    @property
    def path(self) -> str:
        """The path that was opened."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset``; fewer only at the end of the file."""

    def skip_zeros(self, offset: int) -> int:
        """Return the offset of the first byte from ``offset`` on that is not zero, or of the end.

        A preallocated rest costs neither memory nor much time.
        """

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Write all buffers, one after another, at ``offset``; return their size. Never short.

        After a failure any part of them may be in the file.
        """

    def sync(self) -> None:
        """Wait until all bytes written before this call are on stable storage (fdatasync)."""

    def allocate(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, blocks reserved, new bytes zero."""

    def truncate(self, size: int) -> None:
        """Make the file exactly ``size`` bytes long."""

    def size(self) -> int:
        """Return the file's length."""

    def close(self) -> None:
        """Close the handle. Twice is fine."""


class Disk(Protocol):
    """A disk whose files are synced together. It reports write errors since it was opened."""

    def sync(self) -> None:
        """Wait until all bytes written before this call are on stable storage."""

    def close(self) -> None:
        """Close the handle. Twice is fine."""


class FileSystem(Protocol):
    """Directories and names."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        """Open a file; ``create`` makes a new, empty one and fails if the name is taken."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents if they are missing. Durable on return."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file of the new name. Durable after ``sync_dir``."""

    def remove(self, path: str) -> None:
        """Remove a file. Durable after ``sync_dir``."""

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory. Durable after ``sync_dir`` of its parent."""

    def sync_dir(self, path: str) -> None:
        """Wait until creations, renames and removals in this directory are durable."""

    def open_disk(self, path: str) -> Disk | None:
        """Return the disk of the directory ``path``, which syncs all its files together.

        It does not sync names. ``None`` if that promises less than an fsync of each file.
        """

    def free_size(self, path: str) -> int:
        """Return the free bytes of the disk of ``path``."""

    def total_size(self, path: str) -> int:
        """Return the size of the disk of ``path``."""

    def lock(self, path: str) -> File | None:
        """Create and lock a file for this process; return ``None`` if another process holds it."""


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "_path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path

    @property
    def path(self) -> str:
        """The path that was opened."""
        return self._path

    def pread(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset``; fewer only at the end of the file."""
        try:
            return self._pread(size, offset)
        except OSError as error:
            raise self._named(error) from None

    def skip_zeros(self, offset: int) -> int:
        """Return the offset of the next byte that is not zero, or of the end."""
        try:
            return skip_zeros(self._fd, offset)
        except OSError as error:
            raise self._named(error) from None

    def _pread(self, size: int, offset: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            more = os.pread(self._fd, size - got, offset + got)
            if not more:
                break
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Write all buffers, one after another, at ``offset``; return their size. Never short."""
        if len(buffers) <= _IOV_MAX:
            return self._pwrite_some(buffers, offset)
        total = 0
        for start in range(0, len(buffers), _IOV_MAX):
            total += self._pwrite_some(buffers[start : start + _IOV_MAX], offset + total)
        return total

    def _pwrite_some(self, buffers: Sequence[Buffer], offset: int) -> int:
        size = sum(map(len, buffers))
        try:
            done = os.pwritev(self._fd, buffers, offset)
            if done == size:
                return size
            rest = memoryview(b"".join(buffers))
            while done < size:  # a short write precedes ENOSPC, which the next call raises
                done += os.pwrite(self._fd, rest[done:], offset + done)
        except OSError as error:
            raise self._named(error) from None
        return size

    def sync(self) -> None:
        """Wait until all bytes written before this call are on stable storage (fdatasync)."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise FsyncError(error.errno, error.strerror, self._path) from error

    def allocate(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, blocks reserved, new bytes zero."""
        try:
            os.posix_fallocate(self._fd, 0, size)
        except OSError as error:
            raise self._named(error) from None

    def truncate(self, size: int) -> None:
        """Make the file exactly ``size`` bytes long."""
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._named(error) from None

    def size(self) -> int:
        """Return the file's length."""
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close the handle. Twice is fine."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _named(self, error: OSError) -> OSError:
        """Add the path to an error: calls on a descriptor do not."""
        error.filename = self._path
        return error


class OsDisk:
    """A disk of the operating system, as seen from a directory on it."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = _open_dir(path)

    def sync(self) -> None:
        """Wait until all bytes written before this call are on stable storage (syncfs)."""
        try:
            sync_disk(self._fd)
        except OSError as error:
            raise FsyncError(error.errno, error.strerror, self._path) from error

    def close(self) -> None:
        """Close the handle. Twice is fine."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsFiles:
    """The operating system's file system."""

    def __init__(self) -> None:
        self._short_ms: int | None = None  # first failure of the current lack of descriptors

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        """Open a file; ``create`` makes a new, empty one and fails if the name is taken."""
        flags = os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_RDWR if write else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        return OsFile(self._patiently(path, lambda: os.open(path, flags, 0o600)), path)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""
        return os.path.lexists(path)

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(self._patiently(path, lambda: os.listdir(path)))

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents if they are missing. Durable on return."""
        try:
            path = os.path.abspath(path)
        except FileNotFoundError as error:  # it does not name the folder
            why = "the current folder was removed"
            raise FileNotFoundError(error.errno, why, path) from error
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for one in reversed(missing):
            os.makedirs(one, mode=0o700, exist_ok=True)
            try:
                self.sync_dir(os.path.dirname(one))
            except OutOfDescriptorsError:
                with suppress(OSError):  # the next call must not take it for durable
                    os.rmdir(one)
                raise

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file of the new name. Durable after ``sync_dir``."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """Remove a file. Durable after ``sync_dir``."""
        os.unlink(path)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory. Durable after ``sync_dir`` of its parent."""
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        """Wait until creations, renames and removals in this directory are durable."""
        fd = self._patiently(path, lambda: _open_dir(path))
        try:
            os.fsync(fd)
        except OSError as error:
            raise FsyncError(error.errno, error.strerror, path) from error
        finally:
            os.close(fd)

    def open_disk(self, path: str) -> Disk | None:
        """Return the disk of the directory ``path``, which syncs all its files together."""
        return self._patiently(path, lambda: OsDisk(path)) if can_sync_disk(path) else None

    def free_size(self, path: str) -> int:
        """Return the free bytes of the disk of ``path``."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total_size(self, path: str) -> int:
        """Return the size of the disk of ``path``."""
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize

    def lock(self, path: str) -> File | None:
        """Create and lock a file for this process; return ``None`` if another process holds it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = self._patiently(path, lambda: os.open(path, flags, 0o600))
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return OsFile(fd, path)

    def _patiently(self, path: str, get: Callable[[], T]) -> T:
        """Return the result of ``get``; wait for a descriptor if there is none."""
        while True:
            try:
                found = get()
            except OSError as error:
                if not is_no_descriptor(error):
                    raise
                now_ms = monotonic_ms()
                self._short_ms = since_ms = self._short_ms or now_ms
                if now_ms >= since_ms + DESCRIPTOR_WAIT_MS:
                    told = error.strerror or str(error)
                    raise OutOfDescriptorsError(path, "open", told) from error
                sleep_ms(_DESCRIPTOR_POLL_MS)
            else:
                self._short_ms = None
                return found


def _open_dir(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


_IOV_MAX = 1024
