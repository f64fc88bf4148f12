"""The pace of a scrub pass: how much it reads in one go, and how long it rests then.

A *go* is what a pass reads without looking at its messages or the clock: steps until ``go_size``
bytes were read, or until one has to wait. Bytes that were read before such a wait stay a debt,
which the rest after the next whole go pays: so the rate holds over the pass.

Pure. Owned by the scrub actor.
"""

from zbk.protocol.throttle import Throttle


class ScrubPace:
    """Limits a pass to ``rate_size`` bytes a second; 0: no limit."""

    def __init__(self, rate_size: int, go_size: int) -> None:
        self._throttle = Throttle(rate_size)
        self._go_size = go_size
        self._go_read_size = 0
        self._debt_size = 0  # read, and not waited for yet

    def begin_go(self) -> None:
        """Begin the next go."""
        self._go_read_size = 0

    def read(self, size: int) -> None:
        """Record that a step has read so many bytes."""
        self._go_read_size += size
        self._debt_size += size

    @property
    def is_go_over(self) -> bool:
        """True when enough was read for one go."""
        return self._go_read_size >= self._go_size

    def rest_ms(self, now_ms: int) -> int:
        """Return the milliseconds to wait before the next go; the debt is paid by them."""
        debt_size, self._debt_size = self._debt_size, 0
        return self._throttle.wait_ms(debt_size, now_ms)
