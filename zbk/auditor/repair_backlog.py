"""The backlog of repairs: the number of under-replicated ledgers, and when all will be whole.

The counts come from the metadata store at intervals: the process waits for it, readers do not. The
estimate is the rate at which the count has fallen within the last ``WINDOW_MS``, by the workers of
all processes. New reports reduce it.

>>> backlog = RepairBacklog()
>>> backlog.seen(100, 0, now_ms=0)
>>> backlog.seen(80, 0, now_ms=10_000)
>>> backlog.completion_s
40.0
"""

from collections import deque
from math import inf, nan
from typing import Final

WINDOW_MS: Final = 600_000
LOOK_INTERVAL_MS: Final = 2_000
LOOK_SHARE: Final = 20
"""The pause between looks, at least, as a multiple of the duration of a look."""

_COUNT_MAX: Final = 2 * WINDOW_MS // LOOK_INTERVAL_MS


class RepairBacklog:
    """The counts of the last look. One thread writes, any thread reads."""

    def __init__(self) -> None:
        self.task_count: float = nan  # nan: not known
        self.unrepairable_count: float = nan
        self.completion_s: float = nan  # inf: the count does not fall
        self._seen: deque[tuple[int, int]] = deque(maxlen=_COUNT_MAX)  # times in ms, and counts

    def seen(self, task_count: int, unrepairable_count: int, now_ms: int) -> None:
        """Record the counts of a look."""
        while self._seen and now_ms - self._seen[0][0] > WINDOW_MS:
            self._seen.popleft()
        if not task_count:
            self._seen.clear()  # the next tasks are another backlog
        self._seen.append((now_ms, task_count))
        began_ms, began_count = max(self._seen, key=lambda one: (one[1], one[0]))
        self.task_count, self.unrepairable_count = task_count, unrepairable_count
        if not task_count:
            self.completion_s = 0.0
        elif began_count > task_count:
            self.completion_s = task_count * (now_ms - began_ms) / (began_count - task_count) / 1000
        else:
            self.completion_s = inf

    def lost_sight(self) -> None:
        """Record that the metadata store does not answer."""
        self.task_count = self.unrepairable_count = self.completion_s = nan
