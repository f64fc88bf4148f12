"""Make a cluster's bookies as if nobody had read or written for long: nothing is in memory.

Each bookie is stopped and started, which empties its own caches; then its files are synced and
dropped from the page cache. What a host keeps below a virtual machine, or a disk in itself, stays
warm: nobody in the machine can tell.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zbk.cluster.local import LocalCluster
from zbk.errors import InvalidOptionError
from zbk.system.page_cache import drop_from_memory, size_in_memory

WARM_SHARE_MAX: Final = 0.1
"""Of the files' bytes: bookies that run read a little, and the kernel reads ahead."""


def make_cold(cluster: LocalCluster) -> int:
    """Restart the bookies, drop their files from memory, and return the bytes of these.

    Raises:
        InvalidOptionError: files stay in memory here, as in a tmpfs.
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
            "cold", str(cluster.folder), "files stay in memory here: have TMPDIR on a disk"
        )
    return size


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of those in it."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())
