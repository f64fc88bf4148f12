"""The common part of all inspections of files: findings and the verdict.

An inspection reads one file of any name and place: that of a bookie, which may be running, or a
copy. It takes no lock, and continues after damage where it can. Used by ``zbk inspect`` and by
other tools for stopped bookies.

Words: a *fault* is a part of the file that is not what it should be. The *verdict* is about the
whole file; it is ``CLEAN`` only if every byte that a checksum covers passed it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Generic, TypeVar

import msgspec

from zbk.system.files import File, FileSystem

FoundT = TypeVar("FoundT")


class Fault(msgspec.Struct, frozen=True):
    """A part of a file that is not what it should be."""

    offset: int
    size: int  # unusable bytes; 0: not known
    reason: str


class Verdict(StrEnum):
    """The result of an inspection."""

    CLEAN = "clean"
    OPEN_END = "open end"  # bytes of unknown origin follow the whole part
    UNUSED = "unused"  # prepared, without content
    DAMAGED = "damaged"


class Inspection(ABC, Generic[FoundT]):
    """One file. ``findings`` runs once, to its end; then the attributes have the results."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path
        self._offset = 0  # of the part that is being read
        self.fault_count = 0
        self.is_readable = True  # the disk gave all of it

    @property
    def verdict(self) -> Verdict:
        """The result. Only after all findings."""
        return Verdict.DAMAGED if self.fault_count else Verdict.CLEAN

    def findings(self) -> Iterator[FoundT | Fault]:
        """Yield what is found and the faults, in order."""
        for finding in self._findings():
            self.fault_count += isinstance(finding, Fault)
            yield finding

    def _findings(self) -> Iterator[FoundT | Fault]:
        try:
            file = self._files.open(self._path, write=False)
        except OSError as error:
            self.is_readable = False
            yield Fault(0, 0, f"cannot be opened: {error.strerror}")
            return
        try:
            yield from self._read(file)
        except OSError as error:
            self.is_readable = False
            yield Fault(self._offset, 0, f"cannot be read: {error.strerror}")
        finally:
            file.close()
        yield from self._end()

    @abstractmethod
    def _read(self, file: File) -> Iterator[FoundT | Fault]:
        """Yield the findings in an open file."""

    def _end(self) -> Iterator[FoundT | Fault]:
        """Yield the findings that follow from all others, also after a failed read."""
        yield from ()


def id_in_name(path: str, digit_count: int) -> int | None:
    """Return the id in the name of a bookie's file; ``None`` for any other name.

    >>> id_in_name("/copy/0000001f.log", 8), id_in_name("/copy/some.log", 8)
    (31, None)
    """
    stem = PurePath(path).name.partition(".")[0]
    if len(stem) != digit_count or not set(stem) <= set("0123456789abcdef"):
        return None
    return int(stem, 16)
