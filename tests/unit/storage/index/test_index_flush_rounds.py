"""A flush of many ledgers goes in rounds, and pages of which memory has only the end are whole."""

import errno
from array import array
from random import Random

import pytest

from tests.support.ledger_caches import open_cache, put
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import NoSpaceError
from zbk.storage.entry_logs.location import UNKNOWN
from zbk.storage.index import index_flush
from zbk.storage.index.index_file import IndexPath
from zbk.storage.index.index_page import PAGE_SIZE, page_offset
from zbk.storage.index.ledger_cache import LedgerCache

LEDGERS = range(1, 6)
ROOM_FOR_ENDS = 5_000
"""Bytes for pages in memory: too few for five that ledgers grow in to stay whole."""


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture(autouse=True)
def _two_ledgers_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_flush, "ROUND_SIZE", 12 * 1024)


def location(entry_id: int) -> int:
    return 1 << 34 | entry_id + 1


def add(cache: LedgerCache, ledger_id: int, first: int, count: int) -> None:
    put(cache, ledger_id, {one: location(one) for one in range(first, first + count)})


def grown(disk: SimulatedDisk, *, memory_size_max: int = ROOM_FOR_ENDS) -> LedgerCache:
    """Return a cache in which each ledger has a file with 10 entries, and 5 more in memory."""
    cache, _ = open_cache(disk, memory_size_max=memory_size_max)
    for ledger_id in LEDGERS:
        add(cache, ledger_id, 0, 10)
    cache.flush()
    for ledger_id in LEDGERS:
        add(cache, ledger_id, 10, 5)
    return cache


def counts(cache: LedgerCache) -> list[int]:
    """Return how many entries each ledger has, all of which must be right and the first ones."""
    found = []
    for ledger_id in LEDGERS:
        locations = cache.handle(ledger_id).locations_of(range(20))
        count = 20 - locations.count(0)
        assert locations.tolist() == [location(one) for one in range(count)] + [0] * (20 - count)
        assert cache.handle(ledger_id).last_entry_id == count - 1
        found.append(count)
    return found


def test_memory_has_only_what_was_added_since_the_last_flush(disk: SimulatedDisk) -> None:
    cache = grown(disk)
    size = cache.pages.size

    cache.flush()

    assert size - cache.pages.size == len(LEDGERS) * 5 * 8
    assert counts(cache) == [15] * 5
    after, _ = open_cache(disk.crash(Random(1)))
    assert counts(after) == [15] * 5


def test_pages_stay_whole_where_there_is_room_and_are_not_read_to_be_written(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    cache = grown(disk, memory_size_max=100_000)
    size = cache.pages.size
    for ledger_id in LEDGERS:
        disk.flip_bit(IndexPath.of("/l/index", ledger_id).path, 8 * page_offset(0) + 3)

    cache.flush()

    assert cache.pages.size == size
    assert not caplog.records
    after, _ = open_cache(disk.crash(Random(1)))
    assert counts(after) == [15] * 5, "of a page that is whole in memory nothing is read"


def test_the_flush_file_holds_one_round(disk: SimulatedDisk) -> None:
    grown(disk).flush()

    assert len(disk.content("/l/index.flush")) < 2 * (12 * 1024)


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_between_rounds_leaves_whole_ledgers(seed: int) -> None:
    """B35: each ledger is as it was or as it became, and the next flush goes on from there."""
    step, is_done = 0, False
    seen = set()
    while not is_done:
        step += 1
        disk = SimulatedDisk()
        cache = grown(disk)
        disk.crash_at = disk.operation_count + step
        try:
            cache.flush()
            is_done = True
        except SimulatedCrash:
            pass
        after, _ = open_cache(disk.crash(Random(100 * seed + step)))

        found = counts(after)
        assert set(found) <= {10, 15}
        assert found == sorted(found, reverse=True), "in the order of the rounds"
        seen.add(found.count(15))
        for ledger_id in LEDGERS:  # what the journal has is put again
            add(after, ledger_id, 10, 5)
        after.flush()
        again, _ = open_cache(disk)
        assert counts(again) == [15] * 5
    assert len(seen) == 4, "after none, one, two or three of the rounds"


@pytest.mark.parametrize("skip_count", range(12))
def test_a_full_disk_in_any_round_loses_nothing_and_hides_nothing(
    disk: SimulatedDisk, skip_count: int
) -> None:
    cache = grown(disk)
    flush = cache.begin_flush()
    disk.faults = [Fault("pwrite", errno.ENOSPC, skip_count)]
    with pytest.raises(NoSpaceError):
        flush.run()

    assert counts(cache) == [15] * 5, "what is half written in its place is read from memory"

    flush.run()
    cache.end_flush(flush)
    assert counts(cache) == [15] * 5
    after, _ = open_cache(disk.crash(Random(1)))
    assert counts(after) == [15] * 5


def test_the_first_part_of_a_page_is_read_while_it_is_flushed(disk: SimulatedDisk) -> None:
    cache = grown(disk)
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()
    add(cache, 1, 15, 2)

    assert cache.handle(1).locations_of(range(17)).tolist() == [location(one) for one in range(17)]

    flush.apply()
    cache.end_flush(flush)
    assert cache.handle(1).locations_of(range(17)).tolist() == [location(one) for one in range(17)]
    cache.flush()
    after, _ = open_cache(disk.crash(Random(1)))
    assert after.handle(1).locations_of(range(17)).tolist() == [location(one) for one in range(17)]


def test_a_ledger_deleted_ahead_of_its_round_does_not_come_back(disk: SimulatedDisk) -> None:
    cache = grown(disk)
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()
    cache.delete(1)
    cache.delete(5)

    flush.apply()
    cache.end_flush(flush)

    after, _ = open_cache(disk.crash(Random(1)))
    assert after.ledgers() == [2, 3, 4]


def test_what_a_damaged_page_held_becomes_neither_yes_nor_no(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """B3: the page rots between two flushes; what came since is found, the rest is unreadable."""
    cache = grown(disk)
    disk.flip_bit(IndexPath.of("/l/index", 2).path, 8 * page_offset(0) + 3)

    cache.flush()

    after, _ = open_cache(disk)
    assert after.handle(2).locations_of(range(10)).tolist() == [UNKNOWN] * 10, "not absent"
    assert after.handle(2).locations_of(range(10, 16)).tolist() == [
        location(one) for one in range(10, 15)
    ] + [0]
    assert after.handle(3).locations_of(range(15)) == array("Q", map(location, range(15)))
    assert "entries of ledger 2 cannot be found any more" in caplog.text


def test_damage_is_seen_when_a_ledger_is_first_added_to(disk: SimulatedDisk) -> None:
    """B3: later there is no page in memory to be damaged, but what was added."""
    grown(disk).flush()
    path = IndexPath.of("/l/index", 2).path
    assert len(disk.content(path)) == page_offset(0) + PAGE_SIZE
    disk.flip_bit(path, 8 * page_offset(0) + 3)
    cache, _ = open_cache(disk)

    with pytest.raises(Exception, match="damaged"):
        cache.handle(2).prepare(range(15, 16))
