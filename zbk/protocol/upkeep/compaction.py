"""Which entry logs are compacted, and when: decisions only.

Words: the *live share* of a log is that of the entries in it that somebody may still read, in
bytes of entries: headers of blocks count for nothing, as a copy needs them, too. *Compaction*
copies the live entries of some logs, its *sources*, to a new one, its *target*, and removes the
sources. *Minor* compaction takes logs that are nearly dead, often; *major* compaction takes all
those that it pays for, seldom.

A log is taken when its live share is below the threshold of the kind, the lowest share first, and
several go into one target as long as it does not become larger than a log should be. A threshold or
an interval of 0 is *off*: without an interval a kind is still there for those who ask for it.

A damaged log is never taken: nobody knows what is in it.

Functions of their arguments, and a clock of the past. Source: the seed, section Data compaction;
BookKeeper's ``GarbageCollectorThread.doCompactEntryLogs``.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

SOURCE_COUNT_MAX: Final = 1_000
"""Logs that go into one target."""


class CompactionKind(StrEnum):
    """How much is to be won before a log is taken."""

    MINOR = "minor"
    MAJOR = "major"


class CompactionLimits(msgspec.Struct, frozen=True):
    """The options that decide. Thresholds are shares, 0 .. 1; 0 is off."""

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
        """Return whether a kind comes by itself."""
        return self.threshold(kind) > 0 and self.interval_ms(kind) > 0


class LogShare(msgspec.Struct, frozen=True):
    """A log that nothing is written to any more. Sizes in bytes."""

    log_id: int
    entry_size: int  # of all entries
    live_size: int  # of those that somebody may read
    is_whole: bool

    @property
    def live_share(self) -> float:
        """The live share; a log without entries is dead."""
        return self.live_size / self.entry_size if self.entry_size else 0.0

    @property
    def dead_size(self) -> int:
        """What its compaction wins."""
        return self.entry_size - self.live_size


class Win(msgspec.Struct, frozen=True):
    """What the compaction of some logs would bring."""

    log_count: int = 0  # sources
    size: int = 0  # bytes of entries that would go


def candidates(logs: Iterable[LogShare], threshold: float) -> list[LogShare]:
    """Return the logs below a threshold, in the order in which they are taken."""
    found = [one for one in logs if one.is_whole and one.live_share < threshold]
    return sorted(found, key=lambda one: (one.live_share, one.log_id))


def choose_sources(
    logs: Iterable[LogShare], threshold: float, *, target_size_max: int, room_size: int
) -> list[LogShare]:
    """Return the sources of the next compaction; none: there is nothing to do, or no room for it.

    ``room_size`` is what the target may take of the disk. A log that is larger than logs should be
    goes by itself.

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
    """Return what compaction with this threshold would win."""
    found = candidates(logs, threshold)
    return Win(len(found), sum(one.dead_size for one in found))


class CompactionClock:
    """Says when which kind is due. What is major makes minor superfluous.

    The first one is due an interval after the start.
    """

    def __init__(self, limits: CompactionLimits, now_ms: int) -> None:
        self._limits = limits
        self._last_ms = dict.fromkeys(CompactionKind, now_ms)

    def due(self, now_ms: int) -> CompactionKind | None:
        """Return the kind that is due, major before minor."""
        for kind in (CompactionKind.MAJOR, CompactionKind.MINOR):
            is_late = now_ms - self._last_ms[kind] >= self._limits.interval_ms(kind)
            if self._limits.is_on(kind) and is_late:
                return kind
        return None

    def ended(self, kind: CompactionKind, now_ms: int) -> None:
        """Note that a kind has done what there was to do."""
        self._last_ms[kind] = now_ms
        if kind is CompactionKind.MAJOR:
            self._last_ms[CompactionKind.MINOR] = now_ms
