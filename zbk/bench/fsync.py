"""The time of one fsync on this machine, to compare a lone PD append with."""

import os
from pathlib import Path
from typing import Final

from zbk.bench.percentiles import Percentiles, percentiles
from zbk.system.clock import monotonic_s

FILE_SIZE: Final = 16 * 1024 * 1024


def run_fsync(folder: str, *, size: int, count: int) -> Percentiles:
    """Write ``size`` bytes and fsync, ``count`` times, in a preallocated file; return latencies."""
    path = Path(folder) / "fsync-probe"
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    try:
        file_size = max(FILE_SIZE, 2 * size)
        os.posix_fallocate(fd, 0, file_size)
        os.fsync(fd)
        data = os.urandom(size)
        latencies = []
        for number in range(count):
            at_s = monotonic_s()
            os.pwrite(fd, data, number * size % (file_size - size))
            os.fdatasync(fd)
            latencies.append(monotonic_s() - at_s)
        return percentiles(latencies)
    finally:
        os.close(fd)
        path.unlink()
