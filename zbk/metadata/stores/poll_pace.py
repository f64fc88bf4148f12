"""How often a store that has to look for changes does so: often while there are some.

Each look wakes a thread, for nothing most of the time. Changes come in groups, so after one the
next is looked for soon, and after a quiet time seldom.

Pure: it is told what time it is.

>>> pace = PollPace(busy_ms=50, quiet_ms=400)
>>> pace.changed(1_000)
>>> pace.pause_ms(1_050), pace.pause_ms(1_000 + QUIET_AFTER_MS)
(50, 400)
"""

from typing import Final

QUIET_AFTER_MS: Final = 3_000
"""How long after the last change it is quiet."""


class PollPace:
    """When to look next."""

    def __init__(self, *, busy_ms: int, quiet_ms: int) -> None:
        assert 0 < busy_ms <= quiet_ms, "it gets rarer"
        self._busy_ms = busy_ms
        self._quiet_ms = quiet_ms
        self._quiet_from_ms = 0

    def changed(self, now_ms: int) -> None:
        """Note that something has changed, or is likely to."""
        self._quiet_from_ms = now_ms + QUIET_AFTER_MS

    def pause_ms(self, now_ms: int) -> int:
        """Return how long to wait for the next look."""
        return self._quiet_ms if now_ms >= self._quiet_from_ms else self._busy_ms
