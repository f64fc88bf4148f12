"""Warm memory for the page cache that a load will fill, equal for zbk and for the floor.

In a virtual machine, memory that was returned to the host costs several times more at its next
write; the second of two loads would find it warm, and win.
"""

import os
from pathlib import Path
from typing import Final

CHUNK_SIZE: Final = 8 * 1024 * 1024
SIZE_MAX: Final = 4 * 1024 * 1024 * 1024


def warm_page_cache(folder: str, size: int) -> None:
    """Write ``size`` bytes, at most ``SIZE_MAX``, to a file and remove it; nothing is synced."""
    path = Path(folder) / "warm"
    chunk = bytes(CHUNK_SIZE)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    try:
        for _ in range(0, min(size, SIZE_MAX), CHUNK_SIZE):
            os.write(fd, chunk)
    finally:
        os.close(fd)
        path.unlink()
