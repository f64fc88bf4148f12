"""A disk in memory that loses what was not synced, tears writes, and fails on cue.

Implements ``zbk.system.files.FileSystem``. What programs see is the page cache; behind it lies
what is on the platter. A *power loss* (``crash``) keeps an arbitrary part of what was not synced:
whole sectors of 512 bytes, in any order, at times torn inside; names made, changed or removed
without ``sync_dir`` are kept or lost one by one. A *process crash* keeps all of the page cache,
which is still not synced.

Every operation that changes something counts; ``crash_at`` raises ``SimulatedCrash`` at one. An
fsync covers what was written before it; with ``sync_until`` only changes up to that
``change_count``: an fsync that began there, and during which more was written.

Opens are counted, too, whatever is opened: those in ``without_descriptor`` find none.

With a ``capacity`` the disk is full when all files together are so long: a write that makes a file
longer than fits is done in part, then fails; an allocation, or a new file, fails.
"""

import copy
import errno
from collections.abc import Callable, Hashable
from random import Random
from typing import Any, Self

import msgspec

from tests.support.simulated_file import FilesTogether, LockFile, SimulatedFile
from tests.support.simulated_inode import Inode
from zbk.errors import OutOfDescriptorsError
from zbk.system.files import Disk, File, FsyncError


class SimulatedCrash(BaseException):
    """The machine stops here. No code of ours may catch it."""


class Fault(msgspec.Struct):
    """One operation that fails: the one after ``skip_count`` others of its kind and path."""

    operation: str  # as the methods are called, and "create"
    error: int
    skip_count: int = 0
    path_part: str = ""


class SimulatedDisk:
    """A file system. ``life`` counts crashes; ``operation_count`` what changed something."""

    def __init__(self) -> None:
        self.life = 0
        self.operation_count = 0
        self.change_count = 0
        self.sync_until: int | None = None
        self.crash_at: int | None = None
        self.at_step: Callable[[], None] | None = None  # called where a crash would be
        self.open_count = 0
        self.open_count_max = 0
        self.faults: list[Fault] = []
        self.capacity: int | None = None
        self.descriptor_count = 0
        self.without_descriptor = range(0)
        self._directories = {""}
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._pending_names: list[dict[str, Inode | None]] = []
        self._locks: set[str] = set()
        self._listings: dict[str, list[str]] = {}  # by directory, until a name in it changes

    def __deepcopy__(self, memo: dict[int, object]) -> "SimulatedDisk":
        """Return a copy at a tenth of what the general way costs: some tests make thousands."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        copies: dict[Inode | None, Any] = {None: None}
        changes: list[dict[str, Any]] = [
            self._names, self._durable_names, *self._pending_names,
        ]  # fmt: skip
        for inode in {inode for change in changes for inode in change.values()} - {None}:
            copies[inode] = inode.copy()
        other._names, other._durable_names, *other._pending_names = (
            {path: copies[inode] for path, inode in change.items()} for change in changes
        )
        other._directories, other._locks = set(self._directories), set(self._locks)
        other._listings = {}
        other.at_step = None
        other.faults = copy.deepcopy(self.faults, memo)
        return other

    # ------------------------------------------------------------------ the port

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        self._take_descriptor(path)
        if create:
            self.fail_on("create", path)
            if path in self._names:
                raise FileExistsError(errno.EEXIST, "exists", path)
            if _parent(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "no directory", path)
            if not self.free_size(path):
                raise OSError(errno.ENOSPC, "the simulated disk is full", path)
            self._rename({path: Inode()})
            self.step()
        self.fail_on("open", path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        file = SimulatedFile(self, self._names[path], path)
        self.open_count_max = max(self.open_count_max, self.open_count)
        return file

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def list_dir(self, path: str) -> list[str]:
        self._take_descriptor(path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if path not in self._listings:
            prefix = f"{path}/"
            size = len(prefix)
            below = [p for p in self._names if p.startswith(prefix)]
            below += [p for p in self._directories if p.startswith(prefix)]
            self._listings[path] = sorted({p[size:] for p in below if p.find("/", size) < 0})
        return list(self._listings[path])

    def make_dirs(self, path: str) -> None:
        while path not in self._directories:
            self._directories.add(path)
            path = _parent(path)
            self._listings.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        self.fail_on("rename", old)
        if old not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self._rename({old: None, new: self._names[old]})
        self.step()

    def remove(self, path: str) -> None:
        self.fail_on("remove", path)
        if path in self._directories:
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._rename({path: None})
        self.step()

    def remove_dir(self, path: str) -> None:
        if self.list_dir(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self._directories.remove(path)
        self._listings.pop(path, None)
        self._listings.pop(_parent(path), None)
        self._sync_names(path)  # what was below it is gone with it; nobody can sync it any more
        self.step()

    def sync_dir(self, path: str) -> None:
        self._take_descriptor(path)
        self.fail_on("sync_dir", path)
        self.step()
        self._sync_names(path)

    def _sync_names(self, path: str) -> None:
        late = []
        for change in self._pending_names:
            if _parent(next(iter(change))) == path:
                _apply(self._durable_names, change)
            else:
                late.append(change)
        self._pending_names = late

    def open_disk(self, path: str) -> Disk | None:
        assert path in self._directories
        self._take_descriptor(path)
        return FilesTogether(self, path)

    def inode(self, path: str) -> Inode:
        """Return what has a name."""
        return self._names[path]

    def free_size(self, path: str) -> int:
        if self.capacity is None:
            return 1 << 40
        return max(0, self.capacity - self.used_size)

    def total_size(self, path: str) -> int:
        return 1 << 41 if self.capacity is None else self.capacity

    @property
    def used_size(self) -> int:
        """How many bytes all files have."""
        return sum(len(inode.visible) for inode in self._names.values())

    def lock(self, path: str) -> File | None:
        if path in self._locks:
            return None
        self._locks.add(path)
        self.open(path, create=path not in self._names).close()
        return LockFile(self, self._names[path], path)

    def unlock(self, path: str) -> None:
        """Release a lock."""
        self._locks.discard(path)

    # ------------------------------------------------------------------ what tests do

    def crash(self, rng: Random) -> Self:
        """Lose power: keep an arbitrary part of what was not synced."""
        keep_share = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        is_prefix_kept = rng.random() < 0.5
        for change in self._pending_names:
            is_kept = rng.random() < keep_share
            if is_kept:
                _apply(self._durable_names, change)
            elif is_prefix_kept:
                break
        is_torn_anywhere = rng.random() < 0.3
        for path in sorted(self._durable_names):
            self._durable_names[path].lose(rng, keep_share, is_torn_anywhere=is_torn_anywhere)
        for inode in self._durable_names.values():
            inode.show_durable()
        self._names = dict(self._durable_names)
        self._listings.clear()
        self._pending_names = []
        return self.process_crash()

    def process_crash(self) -> Self:
        """Kill the process: the page cache stays."""
        self.life += 1
        self.open_count = 0
        self.crash_at = None
        self.sync_until = None
        self.faults = []
        self.without_descriptor = range(0)
        self._locks = set()
        return self

    def next_change(self) -> int:
        """Count one change of a file's content."""
        self.change_count += 1
        return self.change_count

    def step(self) -> None:
        """Count one operation; crash if it is the one."""
        self.operation_count += 1
        if self.crash_at is not None and self.operation_count >= self.crash_at:
            raise SimulatedCrash
        if self.at_step is not None:
            self.at_step()

    def _take_descriptor(self, path: str) -> None:
        self.descriptor_count += 1
        if self.descriptor_count in self.without_descriptor:
            raise OutOfDescriptorsError(path, "open", "simulated")

    def fail_on(self, operation: str, path: str) -> None:
        """Raise what a fault says, once."""
        for fault in self.faults:
            if fault.operation == operation and fault.path_part in path:
                if fault.skip_count:
                    fault.skip_count -= 1
                    continue
                self.faults.remove(fault)
                kind = FsyncError if operation.startswith("sync") else OSError
                raise kind(fault.error, "simulated", path)

    def state(self) -> Hashable:
        """Return what a crash can leave: disks with equal states have the same futures."""
        numbers: dict[Inode | None, int] = {None: -1}
        changes: list[dict[str, Any]] = [
            dict(sorted(self._names.items())),
            dict(sorted(self._durable_names.items())),
            *self._pending_names,
        ]
        names = [
            tuple((path, numbers.setdefault(inode, len(numbers))) for path, inode in change.items())
            for change in changes
        ]
        contents = [inode.state() for inode in numbers if inode is not None]
        return tuple(names), tuple(contents), frozenset(self._directories)

    def content(self, path: str) -> bytes:
        """Return what a file holds, as programs see it."""
        return bytes(self._names[path].visible)

    def set_content(self, path: str, content: bytes) -> None:
        """Make a file hold this, in the page cache and on the platter: damage at rest."""
        inode = self._names[path]
        inode.visible, inode.durable, inode.pending = content, content, []

    def flip_bit(self, path: str, bit: int) -> None:
        """Change one bit of a file at rest."""
        content = bytearray(self.content(path))
        content[bit // 8] ^= 1 << bit % 8
        self.set_content(path, bytes(content))

    def paths(self, part: str = "") -> list[str]:
        """Return the paths of all files with ``part`` in them, sorted."""
        return sorted(path for path in self._names if part in path)

    def remove_at_rest(self, path: str) -> None:
        """Remove a file, durably: no loss of power brings it back."""
        del self._names[path]
        self._durable_names.pop(path, None)
        for change in self._pending_names:
            change.pop(path, None)
        self._pending_names = [change for change in self._pending_names if change]
        self._listings.pop(_parent(path), None)

    def _rename(self, change: dict[str, Inode | None]) -> None:
        _apply(self._names, change)
        self._pending_names.append(change)
        for path in change:
            self._listings.pop(_parent(path), None)


def _apply(names: dict[str, Inode], change: dict[str, Inode | None]) -> None:
    for path, inode in change.items():
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
