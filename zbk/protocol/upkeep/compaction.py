"""The choice of entry logs to compact, and the schedule of compactions.

Words: the *live share* of a log is the share of its entries that may still be read, in bytes of
entries: block headers do not count, because a copy needs them, too. *Compaction* copies the live
entries of some logs, its *sources*, to a new one, its *target*, and removes the sources. *Minor*
compaction often takes logs that are nearly dead; *major* compaction seldom takes all logs that are
worth it.

A log is taken when its live share is below the threshold of the kind, the lowest share first. A
target has several sources, as long as it does not exceed the size of a log. A threshold or an
interval of 0 is *off*: without an interval a kind can still be requested.

A damaged log is never taken: its contents are not known.

Functions of their arguments, and a clock. Source: the seed, section Data compaction; BookKeeper's
``GarbageCollectorThread.doCompactEntryLogs``.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

SOURCE_COUNT_MAX: Final = 1_000
"""Sources of one target."""


class CompactionKind(StrEnum):
    """The kinds of compaction."""

    MINOR = "minor"
    MAJOR = "major"


class CompactionLimits(msgspec.Struct, frozen=True):
    """The options of compaction. Thresholds are shares, 0 .. 1; 0 is off."""

    minor_threshold: float = 0.2
    minor_interval_ms: int = 3_600_000
    major_threshold: float = 0.8
    major_interval_ms: int = 86_400_000

    def threshold(self, kind: CompactionKind) -> float:
        """Return the live share below which a log is taken."""
        return self.major_threshold if kind is CompactionKind.MAJOR else self.minor_threshold

    def interval_ms(self, kind: CompactionKind) -> int:
        """Return the time from one compaction to the next; 0 is off."""
        return self.major_interval_ms if kind is CompactionKind.MAJOR else self.minor_interval_ms

    def is_on(self, kind: CompactionKind) -> bool:
        """Return whether a kind is scheduled."""
        return self.threshold(kind) > 0 and self.interval_ms(kind) > 0


class LogShare(msgspec.Struct, frozen=True):
    """A sealed log. Sizes in bytes."""

    log_id: int
    entry_size: int  # of all entries
    live_size: int  # of entries that may still be read
    is_whole: bool

    @property
    def live_share(self) -> float:
        """The live share; a log without entries is dead."""
        return self.live_size / self.entry_size if self.entry_size else 0.0

    @property
    def dead_size(self) -> int:
        """The bytes that its compaction frees."""
        return self.entry_size - self.live_size


class Win(msgspec.Struct, frozen=True):
    """The gain of a compaction of some logs."""

    log_count: int = 0  # sources
    size: int = 0  # bytes of dead entries


def candidates(logs: Iterable[LogShare], threshold: float) -> list[LogShare]:
    """Return the logs below a threshold, in the order in which they are taken."""
    found = [one for one in logs if one.is_whole and one.live_share < threshold]
    return sorted(found, key=lambda one: (one.live_share, one.log_id))


def choose_sources(
    logs: Iterable[LogShare], threshold: float, *, target_size_max: int, room_size: int
) -> list[LogShare]:
    """Return the sources of the next compaction; none if no log is taken, or there is no room.

    ``room_size`` is the disk space for the target. A log larger than ``target_size_max`` is
    compacted alone.

    >>> logs = [LogShare(1, 10, 7, True), LogShare(2, 10, 1, True), LogShare(3, 10, 9, True)]
    >>> [one.log_id for one in choose_sources(logs, 0.8, target_size_max=8, room_size=100)]
    [2, 1]
    """
    chosen: list[LogShare] = []
    size = 0
    for one in candidates(logs, threshold):
        if len(chosen) >= SOURCE_COUNT_MAX:
            break
        is_fitting = not size or size + one.live_size <= target_size_max
        if is_fitting and size + one.live_size <= room_size:
            chosen.append(one)
            size += one.live_size
    return chosen


def win_of(logs: Sequence[LogShare], threshold: float) -> Win:
    """Return the gain of a compaction with this threshold."""
    found = candidates(logs, threshold)
    return Win(len(found), sum(one.dead_size for one in found))


class CompactionClock:
    """The schedule of both kinds. A major compaction includes a minor one.

    The first one is due an interval after the start.
    """

    def __init__(self, limits: CompactionLimits, now_ms: int) -> None:
        self._limits = limits
        self._last_ms = dict.fromkeys(CompactionKind, now_ms)

    def change(self, limits: CompactionLimits) -> None:
        """Set other limits; the times of the last compactions stay."""
        self._limits = limits

    def due(self, now_ms: int, suspended: Collection[CompactionKind] = ()) -> CompactionKind | None:
        """Return the kind that is due, major before minor. A suspended kind stays due."""
        for kind in (CompactionKind.MAJOR, CompactionKind.MINOR):
            is_late = now_ms - self._last_ms[kind] >= self._limits.interval_ms(kind)
            if self._limits.is_on(kind) and is_late and kind not in suspended:
                return kind
        return None

    def ended(self, kind: CompactionKind, now_ms: int) -> None:
        """Record that a compaction of a kind has ended."""
        self._last_ms[kind] = now_ms
        if kind is CompactionKind.MAJOR:
            self._last_ms[CompactionKind.MINOR] = now_ms
