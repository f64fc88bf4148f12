"""Index files and the flush file with every bit flipped, or cut at any byte: the damage is seen.

The tests say what that means for each kind of file. Nowhere may the damage make the bookie say "no
such entry" or "no such ledger" of what it has promised, or take a key, a fence, a LAC or a sync
cursor for true that was never told.

``deleted_ledgers`` is in ``test_deleted_ledgers.py``.
"""

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest

from tests.support.bookie_storages import TwinnedStorage
from tests.support.images import Image
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.errors import CorruptRecordError, EntryUnreadableError
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.index.flush_file import FlushFile
from zbk.storage.index.index_file import IndexPath, IndexReader
from zbk.storage.index.index_page import INDEX_HEADER_SIZE, PAGE_SIZE

# ---------------------------------------------------------------- index files

INDEX_1 = IndexPath.of("/l/index", 1).path


def indexed_disk(entry_ids: Sequence[Sequence[int]]) -> SimulatedDisk:
    """Return a disk with an index file of ledger 1, fenced, with a LAC and a sync cursor."""
    disk = SimulatedDisk()
    bookie = TwinnedStorage(disk)
    bookie.open()
    for ids in entry_ids:
        bookie.add(1, ids)
        bookie.finish_checkpoint()
    bookie.fence(1)
    bookie.set_lac(1, 5)
    bookie.storage.homes.ledger(1).index.set_last_add_synced(3)
    bookie.finish_checkpoint()
    return disk


class Index:
    """An index file, and what it says of its ledger."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.image = Image(disk, "/index/")
        self.size = len(self.image.contents[INDEX_1])
        header, pages = self.read()
        assert header is not None
        self.header = header
        self.page_nos = sorted(no for no, page in pages.items() if page is not None)
        self.pages = pages

    def read(
        self, page_nos: Sequence[int] = range(64)
    ) -> tuple[tuple[object, ...] | None, dict[int, bytes | None]]:
        """Return header and pages as a start would read them."""
        reader = IndexReader("/l/index", OpenFiles(self.image, 1))
        found = reader.read_header(1)
        if found is None:
            return None, {}
        pages: dict[int, bytes | None] = {}
        for page_no in page_nos:
            page = reader.read_page(found, page_no)
            pages[page_no] = None if page is None else page.locations.tobytes()
        said = (*found.info().__struct_fields__, found.info(), list(found.extents))
        return said, pages

    def is_seen_at(self, offset: int) -> bool:
        """Read what a byte belongs to; return whether that was refused."""
        page_no = max(0, offset - INDEX_HEADER_SIZE) // PAGE_SIZE
        try:
            header, pages = self.read([page_no])
        except CorruptRecordError:
            return True
        assert header == self.header
        assert pages[page_no] == self.pages[page_no]
        return False


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(indexed_disk([range(6), range(1020, 1030)]))


def test_every_flipped_bit_of_an_index_file_is_seen(index: Index) -> None:
    """B3, B8: seen is a header or a page that is refused: neither yes nor no. None is harmless."""
    assert index.page_nos == [0, 1]
    assert index.size == INDEX_HEADER_SIZE + 2 * PAGE_SIZE
    for bit in range(8 * index.size):
        with index.image.flipped(INDEX_1, bit):
            assert index.is_seen_at(bit >> 3), f"bit {bit}"


def test_an_index_file_cut_at_any_byte_is_seen(index: Index) -> None:
    """B3: no entry becomes absent because the file ends early."""
    for size in range(index.size):
        with index.image.cut(INDEX_1, size):
            assert index.is_seen_at(size), f"cut at {size}"


def test_an_index_file_of_many_runs_cut_at_any_page_is_seen() -> None:
    """B3: the end of the file is not one more page that was never written."""
    scattered = Index(indexed_disk([range(2048 * n, 2048 * n + 2) for n in range(90)]))
    for size in range(INDEX_HEADER_SIZE, scattered.size, PAGE_SIZE):
        with scattered.image.cut(INDEX_1, size):
            assert scattered.is_seen_at(size), f"cut at {size}"


# ---------------------------------------------------------------- the flush file


def crashed_in_apply() -> TwinnedStorage:
    """Return storage that crashed when its flush file was whole and half of it was in place."""
    bookie = TwinnedStorage(SimulatedDisk())
    bookie.open()
    bookie.add(1, range(4))
    bookie.add(2, range(4))
    bookie.sync()
    bookie.finish_checkpoint()
    bookie.add(1, range(4, 9))
    bookie.add(2, range(4, 9))
    bookie.fence(2)
    bookie.sync()
    for _ in range(3):
        bookie.take_step()
    bookie.disk.crash_at = bookie.disk.operation_count + 1  # the first page, and no header yet
    with suppress(SimulatedCrash):
        bookie.take_step()
    bookie.lose_power(Random(1))
    return bookie


def test_every_flipped_bit_of_a_flush_file_voids_all_of_it() -> None:
    """Seen is a file that is not whole, and of which nothing is used: as if it were not there.

    The index files are then as the crash left them: what is half done in them is refused when it is
    read, and the journal still has what the flush was to bring.
    """
    image = Image(crashed_in_apply().disk, "index.flush")
    path = "/l/index.flush"
    flush_file = FlushFile(image, "/l")
    used = {ledger_id: list(parts) for ledger_id, parts in flush_file.read()}
    assert sorted(used) == [1, 2]
    size = len(image.contents[path])
    for bit in range(8 * size):
        with image.flipped(path, bit):
            assert flush_file.read() == [], f"bit {bit}"
    for cut_size in range(size):
        with image.cut(path, cut_size):
            assert flush_file.read() == [], f"cut at {cut_size}"


def test_a_start_on_a_damaged_flush_file_serves_all_or_refuses() -> None:
    """Harmless is a flush that the journal has, too; else the half-done index file is refused."""
    crashed = crashed_in_apply()
    size = len(crashed.disk.content("/l/index.flush"))
    dice = Random(8)
    for at in (*range(32), *(dice.randrange(size) for _ in range(40)), size - 1):
        bookie = crashed.copy()
        bookie.disk.flip_bit("/l/index.flush", 8 * at + dice.randrange(8))
        check_start(bookie)


def check_start(bookie: TwinnedStorage) -> None:
    """Start on what is there: all that was promised is served, or refused as damaged."""
    try:
        bookie.open()
        bookie.check()
    except (CorruptRecordError, EntryUnreadableError):
        pass  # the damage is named: neither yes nor no
