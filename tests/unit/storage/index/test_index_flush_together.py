"""Many index files are synced with one call for the disk: with the same promises as one by one."""

import errno
from random import Random

import pytest

from tests.support.ledger_caches import open_cache, put
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import NoSpaceError, StorageFailedError
from zbk.storage.index import index_flush
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.system.files import Disk

LEDGERS = range(1, 8)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture(autouse=True)
def _three_files_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_flush, "TOGETHER_MIN", 3)
    monkeypatch.setattr(index_flush, "NEW_COUNT_MAX", 3)
    monkeypatch.setattr(index_flush, "ROUND_SIZE", 26 * 1024)


def location(entry_id: int) -> int:
    return 1 << 34 | entry_id + 1


def add(cache: LedgerCache, first: int, count: int) -> None:
    for ledger_id in LEDGERS:
        put(cache, ledger_id, {one: location(one) for one in range(first, first + count)})


def counts(cache: LedgerCache) -> list[int]:
    """Return how many entries the ledgers have that are there; all of them must be right."""
    found = []
    for ledger_id in cache.ledgers():
        locations = cache.handle(ledger_id).locations_of(range(20))
        count = 20 - locations.count(0)
        assert locations.tolist() == [location(one) for one in range(count)] + [0] * (20 - count)
        assert cache.handle(ledger_id).last_entry_id == count - 1
        found.append(count)
    return found


class _EachByItself(SimulatedDisk):
    """A disk of a kind, or of a kernel, that is not known to tell of every failure."""

    def open_disk(self, path: str) -> Disk | None:
        return None


def test_files_are_synced_together_and_new_ones_ahead_of_their_names(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    add(cache, 0, 10)
    disk.faults = [Fault("sync", errno.EIO, path_part="/l/index/")]  # of no single file
    flush = cache.begin_flush()
    flush.sync_entry_logs()
    with pytest.raises(StorageFailedError, match="simulated"):
        flush.run()  # the last one of seven is a batch of its own
    assert len(disk.paths(".new")) == 1
    assert set(counts(open_cache(disk.crash(Random(1)))[0])) <= {10}


@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_at_any_step_leaves_whole_ledgers(seed: int) -> None:
    """Of new files and of old ones; what a flush brought before it ended is kept."""
    step, is_done, flush_count = 0, False, 0
    while not is_done:
        step += 1
        disk = SimulatedDisk()
        cache, _ = open_cache(disk)
        add(cache, 0, 10)
        disk.crash_at = disk.operation_count + step
        flush_count = 0
        try:
            cache.flush()
            flush_count = 1
            add(cache, 10, 5)
            cache.flush()
            is_done = True
        except SimulatedCrash:
            pass
        after, _ = open_cache(disk.crash(Random(100 * seed + step)))

        found = counts(after)
        assert set(found) <= {10, 15}
        if flush_count:
            assert len(found) == len(LEDGERS)
        assert not disk.paths(".new")
        if is_done:
            assert found == [15] * len(LEDGERS)
        add(after, 0, 15)  # what the journal has
        after.flush()
        assert counts(open_cache(disk.crash(Random(step)))[0]) == [15] * len(LEDGERS)


@pytest.mark.parametrize("skip_count", range(3))
def test_a_failed_sync_of_the_disk_is_final_and_loses_nothing(
    disk: SimulatedDisk, skip_count: int
) -> None:
    """In place, half of it may be lost; the flush file has it, and the next start."""
    cache, _ = open_cache(disk)
    add(cache, 0, 10)
    cache.flush()
    add(cache, 10, 5)
    disk.faults = [Fault("sync_disk", errno.ENOSPC, skip_count)]
    flush = cache.begin_flush()
    is_failing = skip_count < 2  # rounds of three, three and one ledgers

    if is_failing:
        with pytest.raises(StorageFailedError, match="fsync of /l/index") as caught:
            flush.run()
        assert not isinstance(caught.value, NoSpaceError), "an fsync is not tried again"
        with pytest.raises(StorageFailedError):
            flush.run()
    else:
        flush.run()

    after, _ = open_cache(disk.crash(Random(skip_count)))
    assert set(counts(after)) <= {10, 15}
    assert len(counts(after)) == len(LEDGERS)


@pytest.mark.parametrize("operation", ["create", "pwrite", "rename"])
@pytest.mark.parametrize("skip_count", range(7))
def test_without_space_for_a_new_file_its_batch_is_made_again(
    disk: SimulatedDisk, operation: str, skip_count: int
) -> None:
    cache, _ = open_cache(disk)
    add(cache, 0, 10)
    flush = cache.begin_flush()
    disk.faults = [Fault(operation, errno.ENOSPC, skip_count, path_part=".new")]

    with pytest.raises(NoSpaceError):
        flush.run()
    assert not disk.paths(".new"), "they take room that is needed"
    flush.run()
    cache.end_flush(flush)

    assert counts(cache) == [10] * len(LEDGERS)
    assert counts(open_cache(disk.crash(Random(1)))[0]) == [10] * len(LEDGERS)


def test_a_ledger_deleted_ahead_of_its_name_gets_none(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, _ = open_cache(disk)
    add(cache, 0, 10)
    flush = cache.begin_flush()
    real = disk.open_disk

    def deleting(path: str) -> Disk | None:
        cache.delete(2)
        return real(path)

    monkeypatch.setattr(disk, "open_disk", deleting)
    flush.run()
    cache.end_flush(flush)

    after, _ = open_cache(disk.crash(Random(1)))
    assert after.ledgers() == [1, *LEDGERS[2:]]
    assert not disk.paths(".new")


def test_where_a_disk_cannot_be_synced_each_file_is() -> None:
    disk = _EachByItself()
    cache, _ = open_cache(disk)
    add(cache, 0, 10)
    cache.flush()
    add(cache, 10, 5)
    cache.flush()

    assert counts(open_cache(disk.crash(Random(3)))[0]) == [15] * len(LEDGERS)
