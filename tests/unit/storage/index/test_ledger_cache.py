"""The ledger cache: what is put is found, within a limit of memory and after a flush."""

from array import array
from random import Random

import pytest

from tests.support.ledger_caches import KEY, PAGE_MEMORY, location, open_cache, put, put_range
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import NoSuchLedgerError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.index.ledger_info import LedgerInfo


def test_what_was_put_is_found(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 1000, 3100)

    found = cache.handle(1).locations_of(range(990, 3111))

    assert found[:10] == array("Q", bytes(80))
    assert found[10:-10].tolist() == [location(1, e) for e in range(1000, 3101)]
    assert found[-10:] == array("Q", bytes(80))
    assert cache.handle(1).last_entry_id == 3100


def test_scattered_ids_are_put_and_found(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    ids = [1, 3, 1023, 1024, 1025, 5000]
    put(cache, 1, {e: location(1, e) for e in ids})

    wanted = [*ids, 5001]
    found = cache.handle(1).locations_of(array("q", wanted))

    assert found.tolist() == [*[location(1, e) for e in ids], 0]
    assert cache.handle(1).locations_of(array("q", [0, 2, 4, 2000])).tolist() == [0, 0, 0, 0]


def test_everything_survives_a_flush_and_a_restart(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 2000)
    put_range(cache, 2, 77, 77)
    cache.handle(2).set_fenced()
    cache.handle(1).set_explicit_lac(1990)
    cache.handle(1).set_explicit_lac(5)
    cache.handle(1).set_last_add_synced(1980)
    cache.handle(1).set_last_add_synced(7)
    cache.flush()
    disk.crash(Random(1))

    cache, _ = open_cache(disk)

    assert cache.handle(1).locations_of(range(2001)).tolist() == [
        location(1, e) for e in range(2001)
    ]
    assert cache.info(1) == LedgerInfo(
        1, KEY, LedgerType.PD_JOURNAL, explicit_lac=1990, last_add_synced=1980, last_entry_id=2000
    )
    assert cache.info(2) == LedgerInfo(
        2, KEY, LedgerType.PD_JOURNAL, is_fenced=True, last_entry_id=77
    )
    assert cache.ledgers() == [1, 2]
    assert cache.ledger_count == 2


def test_a_ledger_that_is_not_here_is_not_here(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)

    assert cache.info(1) is None
    for ask in (
        lambda: cache.handle(1).locations_of(range(2)),
        lambda: cache.handle(1).locations_of([0]),
        lambda: cache.handle(1).last_entry_id,
        lambda: cache.handle(1).contiguous_until(-1),
        lambda: cache.handle(1).next_entry_id(0),
        lambda: cache.handle(1).set_fenced(),
        lambda: cache.handle(1).prepare(range(1)),
    ):
        with pytest.raises(NoSuchLedgerError):
            ask()


def test_key_and_type_are_kept_as_they_came_first(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    cache.set_ledger_key(1, KEY, LedgerType.VD_JOURNAL)

    cache.set_ledger_key(1, bytes(16), LedgerType.PD_JOURNAL)

    assert cache.info(1) == LedgerInfo(1, KEY, LedgerType.VD_JOURNAL)


@pytest.mark.parametrize("is_flushed", [False, True])
def test_the_unbroken_run_is_found_over_pages_and_holes(
    disk: SimulatedDisk, is_flushed: bool
) -> None:
    cache, _ = open_cache(disk, memory_size_max=PAGE_MEMORY)
    put_range(cache, 1, 0, 2047)
    put_range(cache, 1, 2049, 2060)
    put_range(cache, 1, 100 * 1024, 100 * 1024 + 5)
    if is_flushed:
        cache.flush()

    assert cache.handle(1).contiguous_until(-1) == 2047
    assert cache.handle(1).contiguous_until(1000) == 2047
    assert cache.handle(1).contiguous_until(2047) == 2047
    assert cache.handle(1).contiguous_until(2048) == 2060
    assert cache.handle(1).contiguous_until(100 * 1024 - 1) == 100 * 1024 + 5
    assert cache.handle(1).contiguous_until(10**9) == 10**9
    assert cache.handle(1).next_entry_id(0) == 0
    assert cache.handle(1).next_entry_id(2048) == 2049
    assert cache.handle(1).next_entry_id(2061) == 100 * 1024
    assert cache.handle(1).next_entry_id(100 * 1024 + 6) is None


def test_memory_and_files_stay_within_their_limits(disk: SimulatedDisk) -> None:
    cache, logs = open_cache(disk, memory_size_max=3 * PAGE_MEMORY, ledger_count_max=4, open_max=2)
    for ledger_id in range(30):
        put_range(cache, ledger_id, 0, 1500)
        assert cache.pages.size <= 3 * PAGE_MEMORY
        assert len(cache.headers) <= 4
    for ledger_id in range(30):
        assert cache.handle(ledger_id).locations_of(range(1501))[-1] == location(ledger_id, 1500)
        assert cache.pages.size <= 3 * PAGE_MEMORY
        assert len(cache.headers) <= 4
        assert disk.open_count <= 2
    assert logs.begun_count == len(logs.runs) > 0


def test_entries_are_synced_before_what_points_at_them_is_written(disk: SimulatedDisk) -> None:
    """B35: no page of the index is written before the entries that it names."""
    cache, logs = open_cache(disk, memory_size_max=PAGE_MEMORY)
    put_range(cache, 1, 0, 1023)
    before = disk.operation_count

    put_range(cache, 1, 1024, 1024)  # makes room

    assert logs.runs == [before]
    assert disk.operation_count > before


def test_a_flush_brings_what_was_there_when_it_began(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    flush = cache.begin_flush()
    put_range(cache, 1, 10, 19)
    cache.handle(1).set_fenced()
    flush.run()
    cache.end_flush(flush)
    assert cache.handle(1).locations_of(range(20))[-1] == location(1, 19)

    after, _ = open_cache(disk.crash(Random(1)))

    info = after.info(1)
    assert info is not None
    assert (info.last_entry_id, info.is_fenced) == (9, False)
    assert after.handle(1).locations_of(range(11)).tolist() == [
        *(location(1, e) for e in range(10)),
        0,
    ]


def test_what_changes_during_a_flush_is_in_the_next_one(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    flush = cache.begin_flush()
    put_range(cache, 1, 10, 19)
    flush.run()
    cache.end_flush(flush)

    cache.flush()

    after, _ = open_cache(disk.crash(Random(1)))
    assert after.handle(1).locations_of(range(20))[-1] == location(1, 19)


def test_room_can_be_made_while_a_flush_is_under_way(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk, memory_size_max=2 * PAGE_MEMORY)
    put_range(cache, 1, 0, 2047)
    flush = cache.begin_flush()  # and the other thread has not come to it yet
    put_range(cache, 1, 2048, 8000)

    flush.run()
    cache.end_flush(flush)

    assert cache.pages.size <= 2 * PAGE_MEMORY
    assert cache.handle(1).locations_of(range(8001)).tolist() == [
        location(1, e) for e in range(8001)
    ]
    cache.flush()
    after, _ = open_cache(disk.crash(Random(1)))
    assert after.handle(1).locations_of(range(8001)).tolist() == [
        location(1, e) for e in range(8001)
    ]


def test_a_flush_is_due_when_much_of_the_room_is_taken_by_changes(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk, memory_size_max=8 * PAGE_MEMORY)
    put_range(cache, 1, 0, 6 * 1024 - 1)
    assert not cache.is_flush_due
    put_range(cache, 1, 6 * 1024, 6 * 1024 + 200)
    assert cache.is_flush_due

    cache.flush()

    assert not cache.is_flush_due
