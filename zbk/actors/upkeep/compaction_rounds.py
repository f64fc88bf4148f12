"""Compaction in a round of garbage collection: which kind, in which directories.

Each round looks at the logs that are new, so that the bookie can report what compaction would win.
A compaction that is due or requested follows at once, one ledger directory after the other, all at
one rate. It may take hours. If another round is wanted meanwhile, a due compaction lets that round
go first and stays due; a requested one runs to its end. A suspended kind does not begin, and ends
after the log under way.

Owned and run by the gc actor. Source: BookKeeper's ``GarbageCollectorThread.runWithFlags``.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.compaction import CompactionCounts, DirectoryCompaction
from zbk.actors.upkeep.waits import Waits
from zbk.config import BookieConfig
from zbk.config.units import parse_free
from zbk.protocol.throttle import Throttle
from zbk.protocol.upkeep.compaction import (
    CompactionClock,
    CompactionKind,
    CompactionLimits,
    LogShare,
    Win,
    win_of,
)
from zbk.storage.directory.disk_reserve import DiskReserve
from zbk.storage.gc.garbage import Garbage
from zbk.system.files import FileSystem


class CompactionOptions(msgspec.Struct, frozen=True):
    """The settings of compaction."""

    limits: CompactionLimits
    rate_size: int  # bytes per second that are read and written; 0: no limit
    room_size: Callable[[str], int]  # bytes that a directory has for copies


class CompactionRounds:
    """Compaction in all ledger directories of a bookie."""

    def __init__(
        self, garbages: Sequence[Garbage], waits: Waits, options: CompactionOptions
    ) -> None:
        self._limits = options.limits
        self._waits = waits
        self._clock = CompactionClock(options.limits, waits.now_ms())
        self.counts = CompactionCounts()  # since the start
        self.round_counts = CompactionCounts()  # of the last round
        self.wins = dict.fromkeys(CompactionKind, Win())  # after the last round
        self.suspended: frozenset[CompactionKind] = frozenset()  # written by the storage actor
        self._throttle = throttle = Throttle(options.rate_size)
        self._directories = [
            DirectoryCompaction(
                garbage,
                waits,
                counts=self.counts,
                throttle=throttle,
                room_size=options.room_size,
            )
            for garbage in garbages
        ]

    def change(self, limits: CompactionLimits, rate_size: int) -> None:
        """Set other limits, and another rate; a compaction under way keeps its threshold."""
        self._limits = limits
        self._clock.change(limits)
        self._throttle.change(rate_size)

    @property
    def is_open(self) -> bool:
        """True while an interrupted or waiting compaction is not finished."""
        return any(one.is_open for one in self._directories)

    def finish(self) -> Iterator[bool]:
        """Finish what is open."""
        for one in self._directories:
            yield from one.finish()

    def round(
        self, asked: CompactionKind | None, is_other_wanted: Callable[[], bool]
    ) -> Iterator[bool]:
        """Look at the logs; compact them if that is due or requested."""
        before = msgspec.structs.replace(self.counts)
        self.counts.gave_up = ""
        yield from self.finish()
        for one in self._directories:
            yield from one.look(is_counting=self._is_used)
        kind = asked or self._clock.due(self._waits.now_ms(), self.suspended)
        if kind is not None:
            yield from self._compact(kind, is_other_wanted if asked is None else lambda: False)
        shares = [share for one in self._directories for share in one.shares]
        self._tell(shares, before)

    @property
    def _is_used(self) -> bool:
        return any(self._limits.threshold(kind) > 0 for kind in CompactionKind)

    def _compact(self, kind: CompactionKind, should_end: Callable[[], bool]) -> Iterator[bool]:
        threshold = self._limits.threshold(kind)
        if not threshold > 0:
            self.counts.gave_up = f"{kind} compaction is off: its threshold is 0"
            return
        for one in self._directories:
            if kind in self.suspended:
                self.counts.gave_up = f"{kind} compaction is suspended"
                return
            is_through = yield from one.compact(
                threshold, lambda: kind in self.suspended or should_end()
            )
            if not is_through:
                return
        self._clock.ended(kind, self._waits.now_ms())

    def _tell(self, shares: Sequence[LogShare], before: CompactionCounts) -> None:
        now = self.counts
        self.wins = {kind: win_of(shares, self._limits.threshold(kind)) for kind in CompactionKind}
        self.round_counts = CompactionCounts(
            log_count=now.log_count - before.log_count,
            copied_size=now.copied_size - before.copied_size,
            freed_size=now.freed_size - before.freed_size,
            gave_up=now.gave_up,
        )


def room_of(
    path: str,
    *,
    files: FileSystem,
    reserves: Sequence[DiskReserve],
    gate: SpaceGate,
    config: BookieConfig,
) -> int:
    """Return the bytes that copies may take in a directory.

    They leave so much space that the bookie does not become read-only. If it is read-only already,
    copies may use all space beyond the reserve, because compaction frees more than it takes.
    """
    owed_size = sum(one.owed_size for one in reserves if one.holds(path))
    limit = parse_free(config.disk_readonly_free, "disk_readonly_free")
    kept_size = 0 if gate.is_readonly else limit.of(files.total_size(path))
    return files.free_size(path) - owed_size - kept_size


def limits_of(config: BookieConfig) -> CompactionLimits:
    """Return the limits in a bookie's options."""
    return CompactionLimits(
        config.compaction_minor_threshold,
        config.compaction_minor_interval_ms,
        config.compaction_major_threshold,
        config.compaction_major_interval_ms,
    )
