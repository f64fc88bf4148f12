"""Which of many alike events are timed: all of them while they are rare, some while they are not.

Reading clocks and keeping times costs a lone add more than it seems: it runs code and touches
memory that nothing else has touched for a while. So frequent events are sampled by count, which
favors neither slow nor quick ones. Each one that is timed stands for those since the one before.

>>> sampling = Sampling()
>>> sampling.left_count, sampling.share  # the next event is timed, and stands for itself
(1, 1)
>>> sampling.timed(now_us=5_000)
"""

from itertools import cycle
from typing import Final

SHARES: Final = (7, 9, 5, 10)
"""One of so many frequent events is timed, in turn. Their sum is a prime, so events that repeat, in
fours say, are met at each place as often."""

RARE_US: Final = 10_000
"""Events that are farther apart than that are rare."""

FREQUENT_COUNT: Final = 64
"""So many events in a row must be frequent before any goes untimed."""


class Sampling:
    """The rule for one kind of events. One thread.

    An event is timed if ``left_count`` is 1: it stands for ``share`` of them. Each other one takes
    one from ``left_count``. Where events pass, both is done without a call.
    """

    __slots__ = ("_frequent_count", "_shares", "_timed_us", "left_count", "share")

    def __init__(self) -> None:
        self.share = self.left_count = 1
        self._timed_us = 0
        self._frequent_count = 0
        self._shares = cycle(SHARES)

    def timed(self, now_us: int) -> None:
        """Record when an event that was timed came, and decide which one is the next."""
        is_rare = now_us - self._timed_us > RARE_US * self.share
        self._frequent_count = 0 if is_rare else self._frequent_count + 1
        self._timed_us = now_us
        is_sampled = self._frequent_count >= FREQUENT_COUNT
        self.share = self.left_count = next(self._shares) if is_sampled else 1
