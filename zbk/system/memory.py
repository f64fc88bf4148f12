"""Memory of this process: what the C library does with freed memory, and limits.

A bookie frees a megabyte for every batch that it takes. By default glibc returns such blocks to the
kernel, and each new one costs a page fault for every 4 KiB: a tenth of a busy bookie's time.

By default glibc also gives threads their own pools (arenas), eight for each processor, and memory
freed in one arena cannot be used in another: a process that runs for days grows until each arena
has held a burst. Under Python's lock threads rarely allocate at the same time, so one arena is as
fast.
"""

import ctypes
import gc
import resource
from typing import Final

_GC_THRESHOLDS: Final = (50_000, 20, 50)
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def keep_freed_memory(size: int) -> bool:
    """Keep up to ``size`` bytes of freed memory for the next use; return whether that is possible.

    Call it before the process has threads. Without glibc nothing happens.
    """
    return _set((_M_TRIM_THRESHOLD, size), (_M_MMAP_THRESHOLD, size))


def use_one_arena() -> bool:
    """Share freed memory among all threads; return whether that is possible.

    Call it before the process has threads; other programs set ``MALLOC_ARENA_MAX=1`` in their
    environment. Without glibc nothing happens.
    """
    return _set((_M_ARENA_MAX, 1))


def collect_rarely() -> None:
    """Make Python look for cyclic garbage rarely.

    For a process of our own. Neither a request nor an append makes cycles, and with thousands of
    ledgers each full collection walks a million objects that stay: a tenth of a client's time.
    """
    gc.set_threshold(*_GC_THRESHOLDS)


def peak_memory_size() -> int:
    """Return the largest number of bytes that this process had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory(size: int) -> None:
    """Limit this process to about ``size`` bytes of memory; further allocations fail.

    The limit counts addresses (``RLIMIT_AS``): mapped and unused memory, such as libraries and the
    stacks of threads, is added. Call it after the threads have started.
    """
    with open("/proc/self/statm", encoding="ascii") as file:
        mapped_count, resident_count = map(int, file.read().split()[:2])
    unused_size = (mapped_count - resident_count) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = size + unused_size
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def lift_memory_limit() -> None:
    """Remove the limit, as far as that is allowed, so that the process can end in order."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _set(*values: tuple[int, int]) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    is_set = [mallopt(option, value) == 1 for option, value in values]
    return all(is_set)
