"""A ledger that is deleted from the cache is gone for good, even if it is flushed or made anew."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from tests.support.ledger_caches import PAGE_MEMORY, location, open_cache, put, put_range
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import StorageFailedError
from zbk.storage.index.index_file import IndexPath, index_directories


def test_a_deleted_ledger_is_gone_for_good(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    for ledger_id in (1, 2):
        put_range(cache, ledger_id, 0, 2000)
    cache.flush()
    put_range(cache, 1, 2001, 2005)

    cache.delete(1)
    cache.delete(99)

    assert cache.info(1) is None
    assert (cache.ledgers(), cache.ledger_count) == ([2], 1)
    cache.flush()
    after, _ = open_cache(disk.crash(Random(1)))
    assert (after.ledgers(), after.ledger_count) == ([2], 1)


@pytest.mark.parametrize("is_old", [False, True], ids=["new ledger", "ledger with a file"])
@pytest.mark.parametrize("step", range(4))
def test_a_ledger_deleted_while_it_is_flushed_does_not_come_back(
    disk: SimulatedDisk, step: int, is_old: bool
) -> None:
    """B36: the flush makes no file anew."""
    cache, _ = open_cache(disk)
    if is_old:
        put_range(cache, 1, 0, 9)
        cache.flush()
    put_range(cache, 1, 10, 19)
    put_range(cache, 2, 0, 9)
    flush = cache.begin_flush()
    for number, take in enumerate((flush.sync_entry_logs, flush.write, flush.apply)):
        if number == step:
            cache.delete(1)
        take()
    if step == 3:
        cache.delete(1)
    cache.end_flush(flush)
    assert cache.info(1) is None

    for crash in (disk.process_crash, lambda: disk.crash(Random(1))):
        crash()
        after, _ = open_cache(disk)
        assert after.ledgers() == [2]
        assert disk.paths(".new") == []


def test_a_ledger_made_anew_has_nothing_of_the_deleted_one(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    cache.flush()
    put_range(cache, 1, 10, 19)
    cache.flush()  # the flush file speaks of ledger 1 now
    cache.delete(1)
    put(cache, 1, {0: 4242})
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()

    after, _ = open_cache(disk.process_crash())

    assert after.handle(1).locations_of(range(20)).tolist() == [4242] + [0] * 19


def test_a_ledger_made_anew_is_read_from_its_new_file(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk, memory_size_max=PAGE_MEMORY)
    for ledger_id in (1, 2):
        put_range(cache, ledger_id, 0, 9)
    cache.flush()
    assert cache.handle(1).locations_of(range(9, 10))[0] == location(1, 9)  # its file is open now
    cache.delete(1)
    put(cache, 1, {0: 4242})
    cache.flush()
    assert cache.handle(2).locations_of(range(1))[0] == location(
        2, 0
    )  # takes the one page there is room for

    assert cache.handle(1).locations_of(range(10)).tolist() == [4242] + [0] * 9


class _DeletesMeanwhile(SimulatedDisk):
    """Something else happens while the flush file is synced."""

    meanwhile: Callable[[], None] | None = None

    def fail_on(self, operation: str, path: str) -> None:
        if operation == "sync" and path.endswith("index.flush") and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().fail_on(operation, path)


def test_a_ledger_deleted_while_the_flush_file_is_retired_stays_deleted() -> None:
    """B36: nor does a flush that was finished after the delete."""
    disk = _DeletesMeanwhile()
    cache, _ = open_cache(disk)
    for last in (9, 19):
        for ledger_id in (1, 2, 3):
            put_range(cache, ledger_id, 0, last)
        cache.flush()
    cache.delete(1)  # the flush file speaks of it: it is retired by the next flush
    for ledger_id in (2, 3):
        put_range(cache, ledger_id, 20, 29)
    disk.meanwhile = lambda: cache.delete(2)
    cache.flush()  # and 2 is in the flush file, though it is gone
    put(cache, 2, {0: 4242})
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()

    after, _ = open_cache(disk.process_crash())

    assert after.handle(2).locations_of(range(30)).tolist() == [4242] + [0] * 29


def test_a_ledger_made_anew_after_a_restart_has_nothing_of_the_deleted_one(
    disk: SimulatedDisk,
) -> None:
    cache, _ = open_cache(disk)
    for last in (9, 19):  # the second time through the flush file
        put_range(cache, 1, 0, last)
        put_range(cache, 2, 0, last)
        cache.flush()
    cache.delete(1)
    cache, _ = open_cache(disk.process_crash())
    put(cache, 1, {0: 4242})
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    flush.write()

    after, _ = open_cache(disk.process_crash())

    assert after.handle(1).locations_of(range(20)).tolist() == [4242] + [0] * 19


def test_a_file_that_was_being_made_when_the_bookie_died_is_removed(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    disk.faults = [Fault("rename", errno.EIO)]
    with pytest.raises(StorageFailedError):
        cache.flush()
    assert len(disk.paths(".new")) == 1

    cache, _ = open_cache(disk.process_crash())

    assert disk.paths(".new") == []
    assert cache.ledgers() == []


def test_directories_of_deleted_ledgers_are_gone_after_a_start(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    for ledger_id in (1, 0x0100, 0x0101, 0x010000):
        put_range(cache, ledger_id, 0, 0)
    cache.flush()
    for ledger_id in (1, 0x0100, 0x010000):
        cache.delete(ledger_id)
    assert disk.list_dir("/l/index") == ["00", "01"]

    cache, _ = open_cache(disk)

    assert list(index_directories(disk, "/l/index"))[1:] == ["/l/index/00", "/l/index/00/01"]
    put_range(cache, 1, 0, 0)
    cache.flush()
    again, _ = open_cache(disk.crash(Random(1)))
    assert again.ledgers() == [1, 0x0101]


def test_a_damaged_ledger_can_be_deleted(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 9)
    cache.flush()
    disk.flip_bit(IndexPath.of("/l/index", 1).path, 80)
    cache, _ = open_cache(disk.process_crash())

    cache.delete(1)

    assert (cache.ledgers(), cache.ledger_count) == ([], 0)
