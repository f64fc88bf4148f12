"""What the C library does with memory that was freed.

A bookie frees a megabyte for every batch that it takes. By default glibc gives such pieces back to
the kernel, and each new one costs a page fault for every 4 KiB: a tenth of a busy bookie's time.
"""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory(size: int) -> bool:
    """Keep up to ``size`` bytes of freed memory for the next use; return whether that is possible.

    For a process of our own, before it has threads. Nothing happens where there is no glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    is_kept = [mallopt(option, size) == 1 for option in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD)]
    return all(is_kept)
