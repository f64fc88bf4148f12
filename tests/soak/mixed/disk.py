"""What the directories of a cluster take up, by kind; and what of it is still wanted.

    entry_log   entry logs
    index       index files, flush files, marks, notes: everything else in the ledger directories
    journal     segments, preallocated, and spares that wait to be used again
    reserve     what is held back for a full disk

Only the first two grow with what is stored. They are compared with the *live bytes*: the entries
that the bookies' index has, at their size in an entry log. Sizes are blocks on the disk.
"""

from pathlib import Path
from typing import Final

import msgspec

from tests.soak.mixed.payloads import stored_size
from tests.soak.mixed.shelf import Written
from zbk.cluster.local import LocalBookie
from zbk.storage.directory.disk_reserve import RESERVE_NAME
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.index.index_file import IndexReader, ledger_ids
from zbk.system.files import OsFiles

BLOCK_SIZE: Final = 512  # unit of st_blocks
OPEN_MAX: Final = 64


class DiskUse(msgspec.Struct):
    """Bytes on the disks of all bookies."""

    entry_log_size: int = 0
    index_size: int = 0
    journal_size: int = 0
    reserve_size: int = 0

    @property
    def stored_size(self) -> int:
        """What grows with the entries."""
        return self.entry_log_size + self.index_size


def disk_use(folder: Path) -> DiskUse:
    """Return what the bookies of a cluster take up; files may go while they are counted."""
    use = DiskUse()
    for path in folder.glob("bookie*/**/*"):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        size = stat.st_blocks * BLOCK_SIZE
        if not path.is_file():
            continue
        if path.suffix in {".journal", ".spare"}:
            use.journal_size += size
        elif path.name == RESERVE_NAME:
            use.reserve_size += size
        elif path.suffix == ".log":
            use.entry_log_size += size
        else:
            use.index_size += size
    return use


class Kept(msgspec.Struct):
    """What the index of stopped bookies has."""

    live_size: int = 0  # bytes of entries of ledgers that are there
    dead_ledger_count: int = 0  # index files of deleted ledgers


def kept(bookies: list[LocalBookie], shelf: list[Written]) -> Kept:
    """Look into the index of bookies that were stopped well."""
    found = Kept()
    sizes = {
        one.ledger_id: [stored_size(payload) for payload in one.plan.payloads(one.entry_count)]
        for one in shelf
    }
    for bookie in bookies:
        for root in bookie.folder.glob("**/index"):
            reader = IndexReader(str(root), OpenFiles(OsFiles(), OPEN_MAX))
            for ledger_id in ledger_ids(OsFiles(), str(root)):
                if ledger_id in sizes:
                    found.live_size += _live_size(reader, ledger_id, sizes[ledger_id])
                else:
                    found.dead_ledger_count += 1
    return found


def _live_size(reader: IndexReader, ledger_id: int, sizes: list[int]) -> int:
    header = reader.read_header(ledger_id)
    assert header is not None, "it was listed, and nobody else is at work"
    live_size = 0
    for page_start in range(0, header.last_entry_id + 1, 1024):
        page = reader.read_page(header, page_start // 1024)
        if page is not None:
            some = sizes[page_start : page_start + 1024]
            live_size += sum(
                size for size, location in zip(some, page.locations, strict=False) if location
            )
    return live_size
