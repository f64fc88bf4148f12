"""What a full disk still accepts: when a bookie takes new entries. Decisions only.

Words: a directory's *usable* space is its free space without the part that its reserve lacks.
Three limits, each a size or a share of the disk:

    warn       usable space below it is logged
    read-only  below it the bookie refuses ordinary adds: the rest is for fences, recoveries and
               checkpoints
    writable   above it the bookie accepts adds again: half-way between the other two, and at least
               ``margin_size`` over read-only, so that the mode does not oscillate

    writable -> read-only    a directory is below the limit, or a write found no space
    read-only -> writable    every directory is above the limit, no write has failed for
                             ``HOLD_MS``, and the reserves could be made again: that is the proof,
                             because the free space of a disk does not show quotas and inodes

Source: BookKeeper's ``LedgerDirsMonitor`` and ``DiskChecker``.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.config.units import FreeLimit

FENCE_ROOM_SIZE: Final = 256 * 1024
"""Bytes of the journal that are kept for fences once the reserve is in use."""

HOLD_MS: Final = 2_000
"""The least time that a bookie stays read-only after a write that found no space."""


def leaves_room_for_fences(room_size: int, add_size: int) -> bool:
    """Return whether a recovery may add so many bytes to a journal with so much room.

    >>> leaves_room_for_fences(FENCE_ROOM_SIZE + 10, 11)
    False
    """
    return room_size >= add_size + FENCE_ROOM_SIZE


class DirectorySpace(msgspec.Struct, frozen=True):
    """A directory and its disk. Sizes in bytes."""

    path: str
    free_size: int
    total_size: int
    owed_size: int  # of the reserve, that are not held

    @property
    def usable_size(self) -> int:
        """Free bytes after the reserve is whole."""
        return max(0, self.free_size - self.owed_size)


class DiskLimits(msgspec.Struct, frozen=True):
    """The limits of one bookie."""

    warn: FreeLimit
    readonly: FreeLimit
    margin_size: int

    def warn_size(self, total_size: int) -> int:
        """Return the limit to warn at."""
        return max(self.warn.of(total_size), self.readonly.of(total_size))

    def writable_size(self, total_size: int) -> int:
        """Return the limit above which adds are accepted again."""
        readonly_size = self.readonly.of(total_size)
        half_way_size = (readonly_size + self.warn_size(total_size)) // 2
        return max(half_way_size, readonly_size + self.margin_size)


class Measured(msgspec.Struct, frozen=True):
    """The space in each directory was measured."""

    directories: Sequence[DirectorySpace]


class NoSpaceMet(msgspec.Struct, frozen=True):
    """A write found no space."""

    path: str


class ReservesMade(msgspec.Struct, frozen=True):
    """The result of ``MakeReserves``."""

    is_enough: bool


class EnterReadOnly(msgspec.Struct, frozen=True):
    """Refuse ordinary adds from now on, and release space that is kept for speed only."""

    reason: str


class LeaveReadOnly(msgspec.Struct, frozen=True):
    """Accept adds again."""


class MakeReserves(msgspec.Struct, frozen=True):
    """Make the reserves whole. Answer: ReservesMade."""


class WarnOfLowSpace(msgspec.Struct, frozen=True):
    """Log that space runs out."""

    path: str
    free_size: int


Event: TypeAlias = Measured | NoSpaceMet | ReservesMade
Effect: TypeAlias = EnterReadOnly | LeaveReadOnly | MakeReserves | WarnOfLowSpace


class DiskSpace:
    """The mode of one bookie.

    Invariants, checked in ``_check``:
      * reserves are awaited in read-only mode only;
      * a time of a write that found no space is known in read-only mode only.
    """

    def __init__(self, limits: DiskLimits) -> None:
        self._limits = limits
        self._is_readonly = False
        self._no_space_ms: int | None = None
        self._is_making = False
        self._warned: set[str] = set()
        self._low: frozenset[str] = frozenset()

    def change(self, limits: DiskLimits) -> None:
        """Set other limits, which count from the next measurement on."""
        self._limits = limits

    @property
    def is_readonly(self) -> bool:
        """True when ordinary adds are refused."""
        return self._is_readonly

    @property
    def low_paths(self) -> frozenset[str]:
        """The directories that were low on space when they were last measured."""
        return self._low

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects."""
        match event:
            case Measured():
                effects = self._on_measured(event.directories, now_ms)
            case NoSpaceMet():
                effects = self._on_no_space(f"no space for a write to {event.path}", now_ms)
            case ReservesMade():
                effects = self._on_reserves(now_ms, is_enough=event.is_enough)
            case _:
                assert_never(event)
        self._check()
        return effects

    def _on_measured(self, directories: Sequence[DirectorySpace], now_ms: int) -> list[Effect]:
        self._low = frozenset(
            one.path
            for one in directories
            if one.usable_size < self._limits.warn_size(one.total_size)
        )
        if self._is_readonly:
            return self._try_to_leave(directories, now_ms)
        for one in directories:
            readonly_size = self._limits.readonly.of(one.total_size)
            if one.usable_size < readonly_size:
                reason = f"{one.usable_size} bytes are free in {one.path}, less than"
                return self._enter(f"{reason} {readonly_size}")
        return self._warn(directories)

    def _try_to_leave(self, directories: Sequence[DirectorySpace], now_ms: int) -> list[Effect]:
        is_held = self._no_space_ms is not None and now_ms < self._no_space_ms + HOLD_MS
        is_enough = all(
            one.usable_size >= self._limits.writable_size(one.total_size) for one in directories
        )
        if is_held or not is_enough or self._is_making:
            return []
        self._is_making = True
        return [MakeReserves()]

    def _warn(self, directories: Sequence[DirectorySpace]) -> list[Effect]:
        new = [one for one in directories if one.path in self._low - self._warned]
        self._warned = set(self._low)
        return [WarnOfLowSpace(one.path, one.usable_size) for one in new]

    def _on_no_space(self, reason: str, now_ms: int) -> list[Effect]:
        effects = [] if self._is_readonly else self._enter(reason)
        self._no_space_ms = now_ms
        self._is_making = False
        return effects

    def _on_reserves(self, now_ms: int, *, is_enough: bool) -> list[Effect]:
        if not self._is_making:
            return []  # a write has found no space meanwhile
        self._is_making = False
        if not is_enough:
            self._no_space_ms = now_ms
            return []
        self._is_readonly = False
        self._no_space_ms = None
        return [LeaveReadOnly()]

    def _enter(self, reason: str) -> list[Effect]:
        self._is_readonly = True
        self._warned = set()
        return [EnterReadOnly(reason)]

    def _check(self) -> None:
        assert self._is_readonly or not self._is_making, "a writable bookie has its reserves"
        assert self._is_readonly or self._no_space_ms is None, "a write that failed is the reason"
