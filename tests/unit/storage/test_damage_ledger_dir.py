"""Every bit of the files of a ledger directory flipped, each cut at every byte: seen, or harmless.

What that means for each kind of file stands with its test. Nowhere may the damage make the bookie
say "no such entry" or "no such ledger" of what it has promised, serve other bytes that pass their
digest, or take a key, a fence, a LAC or a sync cursor for true that was never told.

``deleted_ledgers`` is in ``test_deleted_ledgers.py``, the journal in ``test_damage_journal.py``.
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest

from tests.support.batches import DIGEST_TYPE
from tests.support.bookie_storages import NO_LIMIT, TwinnedStorage, storage_on
from tests.support.entry_decoding import decode_entry
from tests.support.entry_logs import DIRECTORY as LOG_DIR
from tests.support.entry_logs import OWNER, open_logs
from tests.support.images import Image
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.errors import (
    CorruptJournalError,
    CorruptRecordError,
    DigestMismatchError,
    EntryUnreadableError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.entry_reader import Resolved, fetch
from zbk.storage.entry_logs.scan import Block, EntryLogScan
from zbk.storage.index.flush_file import FlushFile
from zbk.storage.index.index_file import IndexPath, IndexReader
from zbk.storage.index.index_page import INDEX_HEADER_SIZE, PAGE_SIZE

LEDGERS = (1, 2, 3)


def bits_of(size: int, seed: int) -> Sequence[int]:
    """Return one bit of each byte."""
    dice = Random(seed)
    return [8 * at + dice.randrange(8) for at in range(size)]


# ---------------------------------------------------------------- entry logs


class Log:
    """A sealed log of 64 KiB, the entries in it, and storage that has it in its index."""

    def __init__(self) -> None:
        disk = SimulatedDisk()
        bookie = TwinnedStorage(disk, log_size_max=65_536)
        bookie.open()
        first = 0
        while len(log_ids(disk, LOG_DIR)) < 2:
            for ledger_id in LEDGERS:
                bookie.add(ledger_id, range(first, first + 5), (0, 60, 300)[first // 5 % 3])
            first += 5
        bookie.sync()
        bookie.finish_checkpoint()
        self.path = log_path(LOG_DIR, 1)
        self.image = Image(disk)
        self.size = len(self.image.contents[self.path])
        self.storage = storage_on(disk)
        self.storage.open()
        self.read_log = open_logs(self.image).read  # type: ignore[arg-type]
        self.places: list[tuple[int, int, int]] = []  # offset in the log, ledger, entry
        self.entries: dict[tuple[int, int], bytes] = {}
        content = bytes(self.image.contents[self.path])
        for ledger_id, twin in bookie.promised.items():
            for entry_id, entry in twin.entries.items():
                self.entries[ledger_id, entry_id] = entry
                at = content.find(entry)
                if at >= 0:
                    self.places.append((at, ledger_id, entry_id))
        self.places.sort()
        self._said: dict[tuple[int, tuple[int, ...]], Resolved] = {}
        self.digests = {one: digest_function(DIGEST_TYPE, b"", one) for one in LEDGERS}

    def near(self, offset: int) -> tuple[int, list[int]]:
        """Return the entries that are read together with the bytes at an offset."""
        at = max(0, bisect_right(self.places, (offset, 1 << 40, 0)) - 1)
        _, ledger_id, entry_id = self.places[at]
        first = max(0, entry_id - 1)
        ids = range(first, entry_id + 2)
        return ledger_id, [one for one in ids if (ledger_id, one) in self.entries]

    def check(self, offset: int) -> bool:
        """Read around an offset, as a client does; return whether the damage was seen."""
        ledger_id, wanted = self.near(offset)
        is_seen = False
        while wanted:
            resolved = self._resolved(ledger_id, tuple(wanted))
            try:
                count, body = fetch(self.read_log, resolved)
            except EntryUnreadableError:
                is_seen, wanted = True, wanted[1:]
                continue
            if body != b"".join(self.entries[ledger_id, one] for one in wanted[:count]):
                is_seen = True
                self._check_as_client(ledger_id, wanted[:count], body)
            wanted = wanted[count:]
        return is_seen

    def _resolved(self, ledger_id: int, wanted: tuple[int, ...]) -> Resolved:
        """Return what the index says; the damage is in another file, so it says that each time."""
        if (ledger_id, wanted) not in self._said:
            resolved = self.storage.homes.ledger(ledger_id).resolve(list(wanted), NO_LIMIT)
            assert resolved is not None, "no such entry is said by the index"
            self._said[ledger_id, wanted] = resolved
        return self._said[ledger_id, wanted]

    def _check_as_client(self, ledger_id: int, entry_ids: Sequence[int], body: bytes) -> None:
        offset = 0
        for entry_id in entry_ids:
            try:
                _, end = decode_entry(
                    body, offset, ledger_id, entry_id, DIGEST_TYPE, self.digests[ledger_id]
                )
            except DigestMismatchError:
                return  # here a client goes to another replica
            assert body[offset:end] == self.entries[ledger_id, entry_id], "it passed its digest"
            offset = end
        pytest.fail("other bytes, and every digest is right")


@pytest.fixture(scope="module")
def log() -> Log:
    return Log()


def check_log_bits(log: Log, bits: Sequence[int]) -> None:
    for bit in bits:
        at = bisect_right(log.places, (bit >> 3, 1 << 40, 0)) - 1
        is_in_entry = at >= 0 and bit >> 3 < log.places[at][0] + len(
            log.entries[log.places[at][1:]]
        )
        with log.image.flipped(log.path, bit):
            assert log.check(bit >> 3) or not is_in_entry


def test_a_flipped_bit_in_any_byte_of_an_entry_log_is_seen(log: Log) -> None:
    """B3: seen is an entry that cannot be read, or whose digest tells the client.

    Harmless is a bit of a header or of the map: the same entries are served; or, where the start of
    a block is what tells that the entry before it ends there, that one cannot be read. What
    garbage collection makes of such damage is in ``test_garbage_damage.py``.
    """
    assert log.size > 60_000
    check_log_bits(log, bits_of(log.size, 3))


def test_an_entry_log_cut_at_any_byte_denies_nothing(log: Log) -> None:
    """B3: what was cut off is unreadable, what lies before it is served."""
    for size in range(0, log.size, 3):
        with log.image.cut(log.path, size):
            log.check(size)


def test_a_scan_of_a_cut_log_never_finds_less_than_there_is_and_calls_it_whole(log: Log) -> None:
    """B33: a log that was shortened holds fewer ledgers; it is kept, whatever they are."""
    scan = EntryLogScan(log.image, LOG_DIR, 1, OWNER)
    whole = scan.map_of_ledgers()
    assert whole is not None
    dice = Random(4)
    for _ in range(100):
        with log.image.cut(log.path, dice.randrange(log.size)):
            assert scan.map_of_ledgers() is None
            blocks = list(scan.blocks(is_body_read=False))
            sizes = dict.fromkeys(LEDGERS, 0)
            for block in blocks:
                if isinstance(block, Block):
                    sizes[block.header.ledger_id] += block.header.body_size
            assert all(sizes[one] <= whole[one] for one in LEDGERS)


@pytest.mark.soak
def test_every_bit_of_an_entry_log_is_seen(log: Log) -> None:
    check_log_bits(log, range(8 * log.size))


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


# ---------------------------------------------------------------- the last log mark

SLOT_SIZE = 72  # of a mark with one journal, beside a census


def with_two_marks(*, is_first_kept: bool) -> TwinnedStorage:
    """Return killed storage with two slots; the segment of the older one is there, or long gone."""
    bookie = TwinnedStorage(SimulatedDisk(), log_size_max=4000)
    bookie.open()
    for n in range(3):
        bookie.add(1, range(9 * n, 9 * n + 9))
        if not is_first_kept:
            bookie.add(2, range(20 * n, 20 * n + 20), 200)  # the journal goes on to a new segment
        bookie.sync()
        bookie.finish_checkpoint()
    bookie.fence(1)
    bookie.add(1, range(27, 30))
    bookie.sync()
    bookie.storage.journal.note_synced()
    bookie.kill()
    return bookie


@pytest.mark.parametrize("is_first_kept", [True, False], ids=["journal there", "journal gone"])
def test_every_flipped_bit_of_the_last_mark_is_seen_or_harmless(is_first_kept: bool) -> None:
    """B39: harmless is the slot before last, or the last one while the journal goes back so far.

    A replay from an earlier mark does again what was done. Seen is a start that is refused because
    the mark points at a segment that is gone, or no slot is whole.
    """
    killed = with_two_marks(is_first_kept=is_first_kept)
    size = len(killed.disk.content("/l/last_mark"))
    assert size == 512 + SLOT_SIZE
    bits = [
        *range(0, 8 * SLOT_SIZE, 5),
        *range(8 * SLOT_SIZE, 8 * 512, 409),
        *range(8 * 512, 8 * size, 5),
    ]
    refused = []
    for bit in bits:
        bookie = killed.copy()
        bookie.disk.flip_bit("/l/last_mark", bit)
        if not _starts(bookie):
            refused.append(bit)
    last_slot = [bit for bit in bits if bit < 8 * SLOT_SIZE]  # generation 4
    assert refused == ([] if is_first_kept else last_slot)


@pytest.mark.parametrize("is_first_kept", [True, False], ids=["journal there", "journal gone"])
def test_a_last_mark_cut_at_any_byte_is_seen_or_harmless(is_first_kept: bool) -> None:
    killed = with_two_marks(is_first_kept=is_first_kept)
    for size in range(512 + SLOT_SIZE):
        bookie = killed.copy()
        bookie.disk.set_content("/l/last_mark", bookie.disk.content("/l/last_mark")[:size])
        assert _starts(bookie) or size < SLOT_SIZE or not is_first_kept


def _starts(bookie: TwinnedStorage) -> bool:
    try:
        bookie.open()
    except (CorruptJournalError, CorruptRecordError):
        return False
    bookie.check()
    return True
