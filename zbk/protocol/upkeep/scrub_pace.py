"""The pace of a scrub pass: bytes of one burst, and the rest after it.

A *burst* is a run of steps in which the pass does not check its messages or the clock: it ends
after ``burst_size`` bytes, or when a step has to wait. Bytes read before such a wait stay a debt,
which the rest after the next whole burst pays, so the rate holds over the pass.

Pure. Owned by the scrub actor.
"""

from zbk.protocol.throttle import Throttle


class ScrubPace:
    """The pace of a pass with ``rate_size`` bytes a second; 0: no limit."""

    def __init__(self, rate_size: int, burst_size: int) -> None:
        self._throttle = Throttle(rate_size)
        self._burst_size = burst_size
        self._burst_read_size = 0
        self._debt_size = 0  # read, but not rested for

    def change(self, rate_size: int) -> None:
        """Set another rate, from the next rest on."""
        self._throttle.change(rate_size)

    def begin_burst(self) -> None:
        """Begin the next burst."""
        self._burst_read_size = 0

    def read(self, size: int) -> None:
        """Record that a step has read ``size`` bytes."""
        self._burst_read_size += size
        self._debt_size += size

    @property
    def is_burst_over(self) -> bool:
        """True when the burst has read enough."""
        return self._burst_read_size >= self._burst_size

    def rest_ms(self, now_ms: int) -> int:
        """Return the milliseconds to rest before the next burst, which pay the debt."""
        debt_size, self._debt_size = self._debt_size, 0
        return self._throttle.wait_ms(debt_size, now_ms)
