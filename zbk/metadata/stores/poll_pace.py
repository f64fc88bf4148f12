"""The interval at which a store polls for changes: short while there are some.

Each poll wakes a thread, mostly for nothing. Changes come in groups, so the store polls often after
a change, and seldom after a quiet time.

Pure: the caller passes the time.

>>> pace = PollPace(busy_ms=50, quiet_ms=400)
>>> pace.changed(1_000)
>>> pace.pause_ms(1_050), pace.pause_ms(1_000 + QUIET_AFTER_MS)
(50, 400)
"""

from typing import Final

QUIET_AFTER_MS: Final = 3_000
"""The time after the last change at which a quiet time begins."""


class PollPace:
    """The time of the next poll."""

    def __init__(self, *, busy_ms: int, quiet_ms: int) -> None:
        assert 0 < busy_ms <= quiet_ms, "polls become rarer"
        self._busy_ms = busy_ms
        self._quiet_ms = quiet_ms
        self._quiet_from_ms = 0

    def changed(self, now_ms: int) -> None:
        """Record that something has changed, or is likely to."""
        self._quiet_from_ms = now_ms + QUIET_AFTER_MS

    def pause_ms(self, now_ms: int) -> int:
        """Return the time until the next poll."""
        return self._quiet_ms if now_ms >= self._quiet_from_ms else self._busy_ms
