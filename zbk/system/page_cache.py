"""Files in the kernel's page cache: their size there, and dropping them.

Source: mincore(2), posix_fadvise(2); the way of ``vmtouch``.
"""

import ctypes
import mmap
import os
from typing import Final

_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")

_libc = ctypes.CDLL(None, use_errno=True)


def drop_from_memory(path: str) -> None:
    """Sync a file and drop it from memory; a tmpfs keeps it, and so do other mappings."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)  # dirty pages cannot be dropped
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def size_in_memory(path: str) -> int:
    """Return the bytes of a file, in whole pages, that are in memory, without reading it.

    Raises:
        OSError: the file is missing, or cannot be written.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if not size:
            return 0
        with mmap.mmap(fd, size) as mapped:
            start = ctypes.c_char.from_buffer(mapped)
            found = (ctypes.c_ubyte * -(-size // _PAGE_SIZE))()
            failed = _libc.mincore(ctypes.byref(start), ctypes.c_size_t(size), found)
            del start  # else the map cannot be closed
    finally:
        os.close(fd)
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return sum(page & 1 for page in found) * _PAGE_SIZE
