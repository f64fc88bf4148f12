"""Which of many alike events are timed: all of them while they are rare, some while they are not.

Reading clocks and keeping times costs a lone add more than it seems: it runs code and touches
memory that nothing else has touched for a while. So frequent events are sampled by count, which
favors neither slow nor quick ones. Each one that is timed stands for those since the one before.

>>> sampling = Sampling()
>>> sampling.is_due  # the next event is timed, and stands for itself
True
>>> sampling.share
1
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

    An event that is due is timed: it stands for ``share`` of them. Each other one takes one from
    ``left_count``.
    """

    __slots__ = ("_frequent_count", "_shares", "_timed_us", "left_count", "share")

    def __init__(self) -> None:
        self.share = self.left_count = 1
        self._timed_us = 0
        self._frequent_count = 0
        self._shares = cycle(SHARES)

    @property
    def is_due(self) -> bool:
        """True when the next event is to be timed."""
        return self.left_count == 1

    def timed(self, now_us: int) -> None:
        """Record when the event that was due came, and decide which one is the next."""
        is_rare = now_us - self._timed_us > RARE_US * self.share
        self._frequent_count = 0 if is_rare else self._frequent_count + 1
        self._timed_us = now_us
        is_sampled = self._frequent_count >= FREQUENT_COUNT
        self.share = self.left_count = next(self._shares) if is_sampled else 1
