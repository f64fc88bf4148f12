"""How fast this machine is: tests wait longer on a slow one.

The speed is measured once in each test process, with a fixed piece of work, as it is while the
machine also does other things. A deadline of a test is written for ``REFERENCE_S`` and multiplied
by ``SLOWNESS``; a faster machine changes nothing.
"""

import zlib
from typing import Final

from zbk.system.clock import monotonic_s

REFERENCE_S: Final = 0.05
"""What the piece of work takes on one of two idle cores of 2024."""

SLOWNESS_MAX: Final = 8.0


def _work() -> int:
    """Interpret byte code, touch memory, call into C: as the code under test does."""
    checksum = 0
    kept: dict[int, bytes] = {}
    for number in range(160_000):
        kept[number % 1_000] = number.to_bytes(8, "little")
        checksum = zlib.crc32(kept[number % 500], checksum)
    return checksum


def _measure() -> float:
    begin_s = monotonic_s()
    _work()
    return monotonic_s() - begin_s


SLOWNESS: Final = min(SLOWNESS_MAX, max(1.0, _measure() / REFERENCE_S))
"""By how much this machine is slower than the one that the deadlines are written for."""


def patient_s(deadline_s: float) -> float:
    """Return a deadline as it is on this machine."""
    return deadline_s * SLOWNESS
