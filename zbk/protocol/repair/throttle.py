"""How fast work in the background may go: so many bytes a second.

A *throttle* is told of each piece of work before it is done, and says how long to wait first. Work
that was not done in time is not made up for: after a pause no more than ``BURST_MS`` worth of
bytes may go at once.

A function of its arguments and its own past; who shares one between threads has to lock it.
"""

from typing import Final

BURST_MS: Final = 250
"""Work of so much time may be done at once, after a pause."""


class Throttle:
    """Lets ``rate_size`` bytes a second pass; 0: as many as there are.

    >>> throttle = Throttle(1_000)
    >>> [throttle.wait_ms(500, now_ms) for now_ms in (0, 0, 0, 10_000)]
    [250, 750, 1250, 250]
    """

    def __init__(self, rate_size: int) -> None:
        assert rate_size >= 0, "a rate is no debt"
        self._rate_size = rate_size
        self._paid_until_us = 0  # what was let pass takes until then
        self._is_new = True

    def wait_ms(self, size: int, now_ms: int) -> int:
        """Admit ``size`` bytes; return the milliseconds to wait before they pass."""
        if not self._rate_size:
            return 0
        earliest_us = (now_ms - BURST_MS) * 1_000
        if self._is_new:
            self._paid_until_us, self._is_new = earliest_us, False
        self._paid_until_us = max(self._paid_until_us, earliest_us)
        self._paid_until_us += size * 1_000_000 // self._rate_size
        return max(0, -(-self._paid_until_us // 1_000) - now_ms)
