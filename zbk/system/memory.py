"""What the C library does with memory that was freed.

A bookie frees a megabyte for every batch that it takes. By default glibc gives such pieces back to
the kernel, and each new one costs a page fault for every 4 KiB: a tenth of a busy bookie's time.

By default glibc also gives threads pools of their own, arenas, eight for each processor, and what
one has freed no other one can use: a process that runs for days grows until each arena has held a
burst. Under Python's lock threads hardly ever ask at once, so that one arena is as fast.
"""

import ctypes
import resource
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def keep_freed_memory(size: int) -> bool:
    """Keep up to ``size`` bytes of freed memory for the next use; return whether that is possible.

    For a process of our own, before it has threads. Nothing happens where there is no glibc.
    """
    return _set((_M_TRIM_THRESHOLD, size), (_M_MMAP_THRESHOLD, size))


def use_one_arena() -> bool:
    """Share among all threads what was freed; return whether that is possible.

    For a process of our own, before it has threads; other programs set ``MALLOC_ARENA_MAX=1`` in
    their environment. Nothing happens where there is no glibc.
    """
    return _set((_M_ARENA_MAX, 1))


def peak_memory_size() -> int:
    """Return how many bytes of this process were in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory(size: int) -> None:
    """Limit this process to about so many bytes of memory; what it asks for beyond fails.

    The limit is one of addresses (``RLIMIT_AS``): what is mapped now and not used, libraries and
    the stacks of threads, comes on top. To be called when the threads have begun.
    """
    with open("/proc/self/statm", encoding="ascii") as file:
        mapped_count, resident_count = map(int, file.read().split()[:2])
    unused_size = (mapped_count - resident_count) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = size + unused_size
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def lift_memory_limit() -> None:
    """Remove the limit, as far as that is allowed: what is left to do needs memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _set(*values: tuple[int, int]) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    is_set = [mallopt(option, value) == 1 for option, value in values]
    return all(is_set)
