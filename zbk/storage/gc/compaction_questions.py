"""Questions of a compaction to the thread that owns the index.

Those about runs are answered in slices, so short that adds do not notice: the answer is about the
first runs only, and the rest is asked again.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from zbk.storage.entry_logs.format import BlockHeader
from zbk.storage.entry_logs.runs import Run
from zbk.storage.gc.compaction import Compaction

T = TypeVar("T")

SLICE_MS: Final = 2
SLICE_COUNT: Final = 8_192
"""After so much time, or so many entries, the owner turns to its clients."""


class TakeLogId(msgspec.Struct, frozen=True):
    """Draw the id of the log to make next."""

    compaction: Compaction

    def answer(self) -> int:
        """Return the id."""
        return self.compaction.take_log_id()


class IsIndexCrowded(msgspec.Struct, frozen=True):
    """Ask whether the index has to be written before more of it changes."""

    compaction: Compaction

    def answer(self) -> bool:
        """Return whether it has."""
        return self.compaction.is_index_crowded


class SearchTornBlock(msgspec.Struct, frozen=True):
    """Look up some entries that may be in the torn block at the end of a log."""

    compaction: Compaction
    log_id: int
    header: BlockHeader
    first_entry_id: int

    def answer(self) -> tuple[bool, int | None]:
        """Return whether the index points there, and from which entry on to look next."""
        return self.compaction.look_behind(
            self.log_id, self.header, self.first_entry_id, SLICE_COUNT
        )


class RunSlice(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Look at the first of these runs; ``now_ms`` is the clock that ends the slice."""

    compaction: Compaction
    runs: Sequence[Run]
    now_ms: Callable[[], int]

    def answer(self) -> list[T]:
        """Return what was found of each run in the slice; there is at least one."""
        end_ms = self.now_ms() + SLICE_MS
        found: list[T] = []
        count = 0
        for run in self.runs:
            found.append(self.look(run))
            count += run.count
            if count >= SLICE_COUNT or self.now_ms() >= end_ms:
                break
        return found

    @abstractmethod
    def look(self, run: Run) -> T:
        """Return what is wanted of one run."""


class FindLive(RunSlice[Sequence[int]], frozen=True, kw_only=True):
    """Find the places of live entries in runs."""

    def look(self, run: Run) -> Sequence[int]:
        """Return the places."""
        return self.compaction.live_places(run)


class FindPointers(RunSlice[bool], frozen=True, kw_only=True):
    """Find out whether the index points at runs."""

    def look(self, run: Run) -> bool:
        """Return whether it does."""
        return self.compaction.has_pointer(run)


class Relocate(RunSlice[int], frozen=True, kw_only=True):
    """Point the index at runs, where it points at the sources."""

    source_ids: Collection[int]

    def look(self, run: Run) -> int:
        """Return how many entries of the run that were."""
        return self.compaction.relocate(run, self.source_ids)
