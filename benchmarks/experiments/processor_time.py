"""The processor time of other processes, in nanoseconds.

The times in ``/proc`` are counted in ticks of 10 ms, as long as a short round of appends takes.
"""

import time
from collections.abc import Iterable


def processor_ns(pids: Iterable[int]) -> int:
    """Return the processor time of processes: of each, Linux has a clock.

    Source: ``clock_getcpuclockid`` of glibc.

    >>> import os
    >>> processor_ns([os.getpid()]) > 0
    True
    """
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids)
