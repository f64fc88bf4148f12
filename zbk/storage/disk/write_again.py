"""Writing bytes of a file over themselves, so that the next fsync covers them.

A start reads what the process before has written, and that may be in the page cache only. If that
process ended with a failed fsync, the pages count as written, and the platter lacks them: an fsync
alone writes nothing and succeeds. The page cache outlives the process, and not a loss of power.

Source: "Can Applications Recover from fsync Failures?" (Rebello et al., ATC 2020).
"""

from typing import Final

from zbk.system.files import File

CHUNK_SIZE: Final = 1024 * 1024
"""Bytes in memory at once."""


def write_again(file: File, start: int, stop: int) -> None:
    """Write the bytes from ``start`` to ``stop``, or to the end of the file, over themselves.

    Raises:
        OSError: they cannot be read or written.
    """
    while start < stop:
        chunk = file.pread(min(CHUNK_SIZE, stop - start), start)
        if not chunk:
            return
        start += file.pwrite([chunk], start)
