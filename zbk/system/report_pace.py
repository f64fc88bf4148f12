"""How often a log line is written about things that may happen often.

The first is reported at once; what comes within the interval after a report is counted, and
reported together when the interval is over. Pure; its owner calls ``take_due`` now and then, and
locks.
"""

from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")


class ReportPace(Generic[ThingT]):
    """What has happened and was not reported yet: how often, and the last of it."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._reported_ms: int | None = None
        self._count = 0
        self._last: ThingT | None = None

    def note(self, thing: ThingT) -> None:
        """Count something that happened."""
        self._count += 1
        self._last = thing

    def take_due(self, now_ms: int) -> tuple[int, ThingT] | None:
        """Return how much is to be reported now, and the last of it; ``None`` if nothing is.

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
