"""The rate limit of background work, in bytes a second.

A *throttle* receives the size of each piece of work before the work is done, and returns how long
to wait first. Idle time is not made up for: after a pause, bytes worth at most ``BURST_MS`` may
pass at once.

Pure. Threads that share a throttle lock it.
"""

from typing import Final

BURST_MS: Final = 250
"""The time whose bytes may pass at once after a pause."""


class Throttle:
    """A limit of ``rate_size`` bytes a second; 0: no limit.

    >>> throttle = Throttle(1_000)
    >>> [throttle.wait_ms(500, now_ms) for now_ms in (0, 0, 0, 10_000)]
    [250, 750, 1250, 250]
    """

    def __init__(self, rate_size: int) -> None:
        assert rate_size >= 0, "a rate is not negative"
        self._rate_size = rate_size
        self._paid_until_us = 0  # the work that has passed takes until then
        self._is_new = True

    def change(self, rate_size: int) -> None:
        """Set another rate, which counts as after a pause: work at the old one is paid."""
        assert rate_size >= 0, "a rate is not negative"
        self._rate_size = rate_size
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
