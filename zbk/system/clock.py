"""Time as a port. Correctness never depends on the wall clock, which is for people."""

import time
from typing import Final

monotonic_ns: Final = time.monotonic_ns
"""Return nanoseconds that never decrease. For readings in each add: a call of C, without a frame of
Python, which costs more than the reading."""


def monotonic_ms() -> int:
    """Return milliseconds that never decrease, from an arbitrary zero."""
    return time.monotonic_ns() // 1_000_000


def monotonic_us() -> int:
    """Return microseconds that never decrease, from an arbitrary zero."""
    return time.monotonic_ns() // 1_000


def monotonic_s() -> float:
    """Return seconds that never decrease, from an arbitrary zero."""
    return time.monotonic()


def sleep_ms(wait_ms: int) -> None:
    """Sleep. For the few places that no event can wake."""
    time.sleep(wait_ms / 1_000)


def wall_ms() -> int:
    """Return milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000
