"""A disk whose fsyncs take longer: files for one slow bookie of a cluster."""

import threading
from collections.abc import Sequence

from zbk.system.files import Buffer, Disk, File, OsFiles


class SlowFiles(OsFiles):
    """The operating system's file system; each fsync returns ``delay_s`` seconds later."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self._delay_s = delay_s
        self._never = threading.Event()

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        """Open a file; ``create`` makes a new, empty one and fails if the name is taken."""
        return _SlowFile(super().open(path, create=create, write=write), self)

    def sync_dir(self, path: str) -> None:
        """Wait until changes of names in this directory are durable, and longer."""
        super().sync_dir(path)
        self.delay()

    def open_disk(self, path: str) -> Disk | None:
        """Return the disk of a directory, which syncs as slowly."""
        disk = super().open_disk(path)
        return None if disk is None else _SlowDisk(disk, self)

    def delay(self) -> None:
        """Sleep for the additional time of an fsync."""
        self._never.wait(self._delay_s)


class _SlowFile:
    """A file whose fsync takes longer."""

    def __init__(self, file: File, files: SlowFiles) -> None:
        self._file = file
        self._files = files

    @property
    def path(self) -> str:
        return self._file.path

    def pread(self, size: int, offset: int) -> bytes:
        return self._file.pread(size, offset)

    def skip_zeros(self, offset: int) -> int:
        return self._file.skip_zeros(offset)

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        return self._file.pwrite(buffers, offset)

    def sync(self) -> None:
        self._file.sync()
        self._files.delay()

    def allocate(self, size: int) -> None:
        self._file.allocate(size)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class _SlowDisk:
    """A disk whose files, synced together, take longer."""

    def __init__(self, disk: Disk, files: SlowFiles) -> None:
        self._disk = disk
        self._files = files

    def sync(self) -> None:
        self._disk.sync()
        self._files.delay()

    def close(self) -> None:
        self._disk.close()
