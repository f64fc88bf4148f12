"""A short measurement of fsync: how long a directory's disk takes to keep 4 KiB."""

import os
import tempfile
from typing import Final

from zbk.system.clock import monotonic_us

PROBE_SIZE: Final = 4_096
PROBE_COUNT_MAX: Final = 200
PROBE_US_MAX: Final = 1_000_000


def fsync_times_us(directory: str) -> list[int]:
    """Return how long each of up to 200 appends with fdatasync took, ascending, within a second.

    The file has no name, so nothing is left.

    Raises:
        OSError: the directory is not there, or cannot be written.
    """
    times_us: list[int] = []
    data = b"\0" * PROBE_SIZE
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        end_us = monotonic_us() + PROBE_US_MAX
        while len(times_us) < PROBE_COUNT_MAX and (not times_us or monotonic_us() < end_us):
            file.write(data)
            started_us = monotonic_us()
            os.fdatasync(file.fileno())
            times_us.append(monotonic_us() - started_us)
    return sorted(times_us)
