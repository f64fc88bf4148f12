"""Entry logs with each byte's bit flipped, or cut at any byte: the damage is seen, or harmless.

The tests say what that means for an entry log. Nowhere may the damage make the bookie say "no such
entry" of what it has promised, or serve other bytes that pass their digest.
"""

from bisect import bisect_right
from collections.abc import Sequence
from random import Random

import pytest

from tests.support.batches import DIGEST_TYPE
from tests.support.bookie_storages import NO_LIMIT, TwinnedStorage, storage_on
from tests.support.entry_decoding import decode_entry
from tests.support.entry_logs import DIRECTORY as LOG_DIR
from tests.support.entry_logs import OWNER, open_logs
from tests.support.images import Image
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import DigestMismatchError, EntryUnreadableError
from zbk.protocol.entry.digest import digest_function
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.entry_reader import Resolved, fetch
from zbk.storage.entry_logs.scan import Block, EntryLogScan

LEDGERS = (1, 2, 3)


def bits_of(size: int, seed: int) -> Sequence[int]:
    """Return one bit of each byte."""
    dice = Random(seed)
    return [8 * at + dice.randrange(8) for at in range(size)]


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
