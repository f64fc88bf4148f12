"""Looks for the first byte of a file that is not zero, past the page cache where that is possible.

A preallocated file has long rows of zeros that were never written. A read through the page cache
makes memory for them: 64 MiB take 80 ms and stay in memory. A direct read takes 5 ms.
"""

import errno
import fcntl
import os
from mmap import PAGESIZE, mmap
from typing import Final

CHUNK_SIZE: Final = 512 * 1024
_ZEROS: Final = bytes(CHUNK_SIZE)


def skip_zeros(fd: int, offset: int) -> int:
    """Return the offset of the first byte from ``offset`` on that is not zero, or of the end.

    The descriptor is the caller's own: its other users would read directly for a moment.

    Raises:
        OSError: the file cannot be read.
    """
    size = os.fstat(fd).st_size
    try:
        return _skip_directly(fd, offset, size)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system reads through the page cache only
            raise
    return _skip(fd, bytearray(CHUNK_SIZE), offset, offset, size)


def _skip_directly(fd: int, offset: int, size: int) -> int:
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT)
    try:
        with mmap(-1, CHUNK_SIZE) as buffer:  # a direct read begins at pages in memory and file
            return _skip(fd, buffer, offset - offset % PAGESIZE, offset, size)
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def _skip(fd: int, buffer: bytearray | mmap, start: int, offset: int, size: int) -> int:
    """Read chunks from ``start`` on; bytes before ``offset`` do not count."""
    while start < size:
        got = os.preadv(fd, [buffer], start)
        chunk = buffer[max(0, offset - start) : got]
        if chunk != _ZEROS[: len(chunk)]:
            return start + got - len(chunk.lstrip(b"\0"))
        start += got
    return max(start, offset)
