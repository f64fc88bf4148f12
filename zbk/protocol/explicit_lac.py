"""How readers hear of the last entry of a writer that is idle.

A LAC travels with the entries that come after it. When none come, the writer tells the bookies its
LAC by itself: once it has been idle for ``explicit_lac_ms``, once for each LAC that its last entry
did not carry. Nobody waits for it; a slot that was down, or failed to take it, is told again when
it is there, up to ``explicit_lac_count_max`` times in all.

Only a ``Tick`` looks at the time, so a busy writer pays nothing; ``due_ms`` is when one is needed.

Source: BookKeeper's ``ExplicitLacFlushPolicy``.
"""

from collections.abc import Collection
from typing import Final

from zbk.protocol.words import NO_ENTRY
from zbk.protocol.writer_events import Effect, SendLac, WriterLimits

RETRY_MS: Final = 1_000
"""Pause before a slot that was down, or failed to take the LAC, is told again."""


class ExplicitLac:
    """What the bookies of an idle writer were told."""

    def __init__(self, slot_count: int, limits: WriterLimits) -> None:
        self._pause_ms = limits.explicit_lac_ms
        self._count_max = limits.explicit_lac_count_max
        self._lac = NO_ENTRY  # as last seen by an idle writer,
        self._since_ms = 0  # and since when
        self._told_lac = NO_ENTRY
        self._told_ms = 0
        self._told: set[int] = set()  # slots that were, and have not failed to take it
        self._left_counts = [0] * slot_count  # how often a slot may still be told it

    def idle(self, lac: int, now_ms: int) -> None:
        """Note that the writer is idle, and what its LAC is."""
        if lac != self._lac:
            self._lac, self._since_ms = lac, now_ms

    def due_ms(self, pushed_lac: int, live: Collection[int]) -> int | None:
        """Return when there will be something to tell, if nothing happens; ``None``: never."""
        if not self._pause_ms or self._lac <= pushed_lac:
            return None
        if self._lac > self._told_lac:
            return self._since_ms + self._pause_ms
        return self._told_ms + RETRY_MS if self._untold(live) else None

    def tick(self, lac: int, pushed_lac: int, live: Collection[int], now_ms: int) -> list[Effect]:
        """Return what to tell, now that the writer is idle. ``pushed_lac`` is known already."""
        self.idle(lac, now_ms)
        is_over = self._pause_ms and now_ms - self._since_ms >= self._pause_ms
        if not is_over or lac <= pushed_lac:
            return []
        if lac > self._told_lac:
            self._told_lac = lac
            self._told.clear()
            self._left_counts = [self._count_max] * len(self._left_counts)
        due = self._untold(live)
        if due:
            self._told_ms = now_ms
        for slot in due:
            self._told.add(slot)
            self._left_counts[slot] -= 1
        return [SendLac(slot, lac) for slot in due]

    def _untold(self, live: Collection[int]) -> list[int]:
        return [slot for slot in live if slot not in self._told and self._left_counts[slot]]

    def failed(self, slot: int, lac: int) -> None:
        """Note that a slot did not take it."""
        if lac == self._told_lac:
            self._told.discard(slot)
