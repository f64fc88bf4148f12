"""Touch the memory that a load will fill as page cache, so that zbk and the floor find it alike.

In a virtual machine memory that was given back to the host costs several times more when it is
written the next time; whoever runs second would find it warm, and win.
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
