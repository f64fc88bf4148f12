"""The pace of log lines about frequent events.

The first event is reported at once; events within the interval after a report are counted, and
reported together when the interval is over. Pure; its owner calls ``take_due`` regularly, and
locks.
"""

from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")


class ReportPace(Generic[ThingT]):
    """The events that were not reported yet: their number, and the last one."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._reported_ms: int | None = None
        self._count = 0
        self._last: ThingT | None = None

    def note(self, thing: ThingT) -> None:
        """Count an event."""
        self._count += 1
        self._last = thing

    def take_due(self, now_ms: int) -> tuple[int, ThingT] | None:
        """Return the number of events to report now, and the last one; ``None`` if there are none.

        >>> pace = ReportPace[str](1_000)
        >>> for name in ("a", "b"):
        ...     pace.note(name)
        >>> pace.take_due(5_000), pace.take_due(7_000)
        ((2, 'b'), None)
        """
        is_early = self._reported_ms is not None and now_ms < self._reported_ms + self._interval_ms
        if self._last is None or is_early:
            return None
        due = self._count, self._last
        self._reported_ms, self._count, self._last = now_ms, 0, None
        return due
