"""Time as a port. Correctness never depends on the wall clock: it is for people to read."""

import time


def monotonic_ms() -> int:
    """Return milliseconds that only grow; the zero point means nothing."""
    return time.monotonic_ns() // 1_000_000


def monotonic_us() -> int:
    """Return microseconds that only grow; the zero point means nothing."""
    return time.monotonic_ns() // 1_000


def monotonic_s() -> float:
    """Return seconds that only grow; the zero point means nothing."""
    return time.monotonic()


def sleep_ms(wait_ms: int) -> None:
    """Do nothing for a time. For the few places where nobody can say when to go on."""
    time.sleep(wait_ms / 1_000)


def wall_ms() -> int:
    """Return milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000
