"""Carries out a scrub at once, in the thread of the test."""

import errno
from collections.abc import Callable
from typing import Any

from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_file import SimulatedFile
from zbk.protocol.upkeep.scrub import DamagedEntries, DamagedFile, Findings
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.scrub.scrub_effects import (
    DiskStateOf,
    LocationsOf,
    OwnerQuestion,
    Paid,
    Pause,
    ScrubEffect,
)
from zbk.storage.scrub.scrub_pass import ScrubPass
from zbk.storage.scrub.scrub_view import ScrubView
from zbk.system.files import File


def nothing(_step: ScrubEffect) -> None:
    """Do nothing between two steps."""


class Scrubber:
    """One pass over one directory; ``between`` sees each step before it is carried out."""

    def __init__(
        self,
        view: ScrubView,
        *,
        between: Callable[[ScrubEffect], None] = nothing,
        ask: Callable[[OwnerQuestion], Any] = lambda question: question.answer(),
    ) -> None:
        self.findings = Findings()
        self.told: list[DamagedFile] = []
        self.read_size = 0
        self.step_size_max = 0
        self.question_count = 0
        self.pause_count = 0
        self.scrub = ScrubPass(view)
        self._between = between
        self._ask = ask

    def run(self) -> Findings:
        """Carry out the pass."""
        steps = self.scrub.steps()
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                assert self.scrub.share == 1.0
                return self.findings
            self._between(step)
            answer = self._carry_out(step)

    def _carry_out(self, step: ScrubEffect) -> object:
        match step:
            case Paid(size):
                self.read_size += size
                self.step_size_max = max(self.step_size_max, size)
            case Pause():
                self.pause_count += 1
            case DiskStateOf() | LocationsOf():
                self.question_count += 1
                return self._ask(step)
            case DamagedFile():
                if self.findings.add_file(step):
                    self.told.append(step)
            case DamagedEntries():
                self.findings.add_entries(step)
        return None


def scrub(storage: BookieStorage) -> Findings:
    """Scrub the only directory of a bookie."""
    (view,) = storage.scrubs
    return Scrubber(view).run()


class BadDisk(SimulatedDisk):
    """A disk with places that cannot be read, whoever tries and however often."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: dict[str, range] = {}  # by path: bytes
        self.bad_read_count = 0
        self.unlistable = ""

    def list_dir(self, path: str) -> list[str]:
        if path == self.unlistable:
            raise OSError(errno.EIO, "a bad directory", path)
        return super().list_dir(path)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        file = super().open(path, create=create, write=write)
        assert isinstance(file, SimulatedFile)
        file.close()
        return _BadFile(self, file._inode, path)


class _BadFile(SimulatedFile):
    def pread(self, size: int, offset: int) -> bytes:
        assert isinstance(self._disk, BadDisk)
        bad = self._disk.bad.get(self.path, range(0))
        if bad and max(offset, bad.start) < min(offset + size, bad.stop):
            self._disk.bad_read_count += 1
            raise OSError(errno.EIO, "a bad sector", self.path)
        return super().pread(size, offset)
