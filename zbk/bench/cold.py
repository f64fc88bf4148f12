"""Cold bookies: nothing that they stored is in memory.

Each bookie is stopped and started, which empties its own caches; then its files are synced and
dropped from the page cache. The caches of a virtual machine's host, and of the disk itself, stay
warm: no process in the machine can empty them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zbk.cluster.local import LocalCluster
from zbk.errors import InvalidOptionError
from zbk.system.page_cache import drop_from_memory, size_in_memory

WARM_SHARE_MAX: Final = 0.1
"""Share of the files' bytes: running bookies read a little, and the kernel reads ahead."""


def make_cold(cluster: LocalCluster) -> int:
    """Restart the bookies, drop their files from memory, and return the size of these files.

    Raises:
        InvalidOptionError: the files stay in memory, as in a tmpfs.
        BookieError: a bookie did not come up.
    """
    for bookie in cluster.bookies:
        cluster.terminate(bookie.index)
    for bookie in cluster.bookies:
        cluster.restart(bookie.index)
    paths = [path for bookie in cluster.bookies for path in files_below(bookie.folder)]
    for path in paths:
        drop_from_memory(str(path))
    size = sum(path.stat().st_size for path in paths)
    if sum(size_in_memory(str(path)) for path in paths) > size * WARM_SHARE_MAX:
        raise InvalidOptionError(
            "cold",
            str(cluster.folder),
            "files stay in memory here: set TMPDIR to a folder on a disk",
        )
    return size


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())
