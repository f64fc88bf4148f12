"""The choice of the thread that syncs a lone group of journal records.

A *lone* group is small, a request waits for its fsync, and no other group follows yet. If the
writing thread syncs it, a lone add saves the wake-up of another thread. But requests that arrive
meanwhile wait for that fsync, even adds that are acknowledged after the write. So the writing
thread syncs a lone group only if both conditions hold:

    quick    the last ``SYNC_COUNT`` fsyncs took ``QUICK_SYNC_US`` or less on average. A disk
             without a measured fsync does not count as quick
    durable  no add was acknowledged after the write within the last ``VOLATILE_MS``

The remaining cost is one fsync of a quick disk for the first such add after a quiet time, and one
fsync of a disk that has just become slow. The writing thread may be the thread of the bookie's
front, which handled a lone add from its socket to its answer; then the front waits for the fsync.

Threads: ``written`` and ``is_for_writer`` belong to the writing thread, ``synced`` to the thread
that syncs, of which there is one at a time.
"""

from collections import deque
from typing import Final

SYNC_COUNT: Final = 8
"""Fsyncs in the average."""

QUICK_SYNC_US: Final = 5_000
"""Microseconds. A wake-up takes some tens of them, which a slower disk hides."""

VOLATILE_MS: Final = 10_000
"""Milliseconds for which an add acknowledged after the write counts as recent."""


class LoneSync:
    """The rule for one journal."""

    def __init__(self) -> None:
        self._durations_us: deque[int] = deque(maxlen=SYNC_COUNT)
        self._is_quick = False
        self._volatile_until_ms: int | None = None

    @property
    def is_quick(self) -> bool:
        """True when the last fsyncs were measured and quick. Any thread may read it."""
        return self._is_quick

    def written(self, now_ms: int) -> None:
        """Record that an add was acknowledged after the write."""
        self._volatile_until_ms = now_ms + VOLATILE_MS

    def synced(self, duration_us: int) -> None:
        """Record the duration of an fsync that had something to sync."""
        self._durations_us.append(duration_us)
        self._is_quick = sum(self._durations_us) <= QUICK_SYNC_US * len(self._durations_us)

    def is_for_writer(self, now_ms: int) -> bool:
        """Return whether the writing thread syncs the lone group that it has just written."""
        until_ms = self._volatile_until_ms
        return self._is_quick and (until_ms is None or now_ms >= until_ms)
