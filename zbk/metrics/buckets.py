"""A histogram of durations as plain numbers: one thread at a time counts, any thread may read."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from zbk.metrics.metric import LATENCY_BOUNDS_US


class Buckets:
    """Counts of durations, by upper bound. A count may lag a reader by one observation."""

    __slots__ = ("_bounds", "counts", "sum_us")

    def __init__(self, bounds_us: Sequence[int] = LATENCY_BOUNDS_US) -> None:
        self._bounds = bounds_us
        self.counts = [0] * (len(bounds_us) + 1)  # the last one: above all bounds
        self.sum_us = 0

    def observe(self, duration_us: int, count: int = 1) -> None:
        """Count a duration, in microseconds, ``count`` times. Only the owner."""
        self.counts[bisect_left(self._bounds, duration_us)] += count
        self.sum_us += duration_us * count

    def observe_all(self, durations_us: Sequence[int], count: int = 1) -> None:
        """Count durations, each ``count`` times. Quick where there are many. Only the owner."""
        durations_us = sorted(durations_us)
        counted = 0
        for number, bound_us in enumerate(self._bounds):
            end = bisect_right(durations_us, bound_us, counted)
            self.counts[number] += count * (end - counted)
            counted = end
        self.counts[-1] += count * (len(durations_us) - counted)
        self.sum_us += count * sum(durations_us)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each upper bound in seconds, as text, with the count up to it; the last is +Inf.

        >>> buckets = Buckets((1_000, 1_000_000))
        >>> buckets.observe(1_000)
        >>> buckets.observe(2_000_000)
        >>> buckets.cumulative()
        [('0.001', 1.0), ('1.0', 1.0), ('+Inf', 2.0)]
        """
        bounds = [*(str(bound / 1_000_000) for bound in self._bounds), "+Inf"]
        total = 0
        found = []
        for bound, count in zip(bounds, list(self.counts), strict=True):
            total += count
            found.append((bound, float(total)))
        return found

    @property
    def sum_s(self) -> float:
        """The sum of all durations, in seconds."""
        return self.sum_us / 1_000_000


def merged(all_buckets: Sequence[Buckets]) -> Buckets:
    """Return the sum of histograms with the same bounds, as a new one."""
    total = Buckets()
    for one in all_buckets:
        total.counts = [a + b for a, b in zip(total.counts, list(one.counts), strict=True)]
        total.sum_us += one.sum_us
    return total
