"""The ledger cache over damaged index files and a failing disk: an error is never an absence."""

import errno
from array import array

import pytest

from tests.support.ledger_caches import KEY, location, open_cache, put_range
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import CorruptRecordError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.index.index_file import IndexPath
from zbk.storage.index.index_page import page_offset
from zbk.storage.index.ledger_cache import LedgerCache


def damaged(disk: SimulatedDisk, bit: int) -> LedgerCache:
    cache, _ = open_cache(disk)
    put_range(cache, 1, 0, 3000)
    cache.flush()
    disk.flip_bit(IndexPath.of("/l/index", 1).path, bit)
    return open_cache(disk.process_crash())[0]


@pytest.mark.parametrize("bit", [8 * page_offset(1), 8 * page_offset(2) - 1])
def test_a_damaged_page_is_an_error_and_not_an_absence(disk: SimulatedDisk, bit: int) -> None:
    cache = damaged(disk, bit)

    assert cache.handle(1).locations_of(range(1024))[-1] == location(1, 1023)
    assert cache.handle(1).locations_of(range(2048, 3001))[-1] == location(1, 3000)
    for ask in (
        lambda: cache.handle(1).locations_of(range(1024, 1025)),
        lambda: cache.handle(1).locations_of(range(3001)),
        lambda: cache.handle(1).locations_of(array("q", [5, 1500])),
        lambda: cache.handle(1).contiguous_until(-1),
        lambda: cache.handle(1).next_entry_id(1024),
        lambda: cache.handle(1).prepare(range(2000, 2050)),
    ):
        with pytest.raises(CorruptRecordError):
            ask()
    assert cache.handle(1).last_entry_id == 3000


def test_a_page_lost_to_zeros_is_an_error_and_not_an_absence(disk: SimulatedDisk) -> None:
    cache = damaged(disk, 8 * page_offset(1))
    path = IndexPath.of("/l/index", 1).path
    content = disk.content(path)
    start, end = page_offset(1), page_offset(2)
    disk.set_content(path, content[:start] + bytes(end - start) + content[end:])
    with pytest.raises(CorruptRecordError):
        cache.handle(1).locations_of(range(1500, 1501))
    disk.set_content(path, content[:start])
    with pytest.raises(CorruptRecordError):
        cache.handle(1).locations_of(range(2500, 2501))


def test_a_damaged_header_is_an_error_and_not_an_absence(disk: SimulatedDisk) -> None:
    cache = damaged(disk, 100)

    for ask in (
        lambda: cache.info(1),
        lambda: cache.handle(1).locations_of(range(1)),
        lambda: cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL),
    ):
        with pytest.raises(CorruptRecordError):
            ask()
    assert cache.ledgers() == [1]


def test_a_failed_flush_is_the_end_of_changes_but_not_of_reads(disk: SimulatedDisk) -> None:
    for operation in ("pwrite", "sync", "create", "rename", "sync_dir"):
        disk = SimulatedDisk()
        cache, _ = open_cache(disk)
        put_range(cache, 1, 0, 9)
        disk.faults = [Fault(operation, errno.EIO)]
        with pytest.raises(StorageFailedError):
            cache.flush()

        before = disk.operation_count
        for refused in (
            lambda cache=cache: cache.handle(1).set_fenced(),
            lambda cache=cache: put_range(cache, 1, 10, 19),
            lambda cache=cache: cache.set_ledger_key(2, KEY, LedgerType.PD_JOURNAL),
            lambda cache=cache: cache.delete(1),
        ):
            with pytest.raises(StorageFailedError):
                refused()
        assert disk.operation_count == before
        assert cache.handle(1).locations_of(range(10))[-1] == location(1, 9)
