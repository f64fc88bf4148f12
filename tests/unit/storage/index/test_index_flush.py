"""Flushes of the index: a crash at any byte leaves the old pages or the new ones, never a mix."""

import errno
from array import array
from copy import deepcopy
from random import Random

import pytest

from tests.support.damage import flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.ledger_caches import open_cache, put
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import StorageFailedError
from zbk.storage.disk.byte_order import to_disk
from zbk.storage.index.flush_file import FlushFile, Part
from zbk.storage.index.ledger_cache import LedgerCache

PATH = "/l/index.flush"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def parts() -> list[Part]:
    page = array("Q", range(1024))
    return [
        Part.of_page(7, 3, 5, to_disk(page)),
        Part.of_header(7, bytes(range(256)) * 4),
        Part.of_header(9, b"\xff" * 1024),
    ]


def found_in(disk: SimulatedDisk) -> list[tuple[int, int, int, bytes]]:
    read = FlushFile(disk, "/l").read()
    return [(p.ledger_id, p.page_no, p.slot, bytes(p.data)) for _, own in read for p in own]


def test_what_was_written_is_read(disk: SimulatedDisk) -> None:
    FlushFile(disk, "/l").write(parts())

    wanted = [(p.ledger_id, p.page_no, p.slot, bytes(p.data)) for p in parts()]
    assert found_in(disk.crash(Random(1))) == wanted


def test_the_next_one_is_written_over_it(disk: SimulatedDisk) -> None:
    flush_file = FlushFile(disk, "/l")
    flush_file.write(parts())
    flush_file.write(parts()[2:])

    assert [one[0] for one in found_in(disk)] == [9]


def test_none_and_retired_ones_say_nothing(disk: SimulatedDisk) -> None:
    assert found_in(disk) == []
    flush_file = FlushFile(disk, "/l")
    flush_file.write(parts())

    flush_file.retire()

    assert found_in(disk.crash(Random(2))) == []


def test_no_cut_and_no_flipped_bit_is_used(disk: SimulatedDisk) -> None:
    FlushFile(disk, "/l").write(parts())
    whole = disk.content(PATH)
    for size in range(0, len(whole), 41):
        disk.set_content(PATH, whole[:size])
        assert found_in(disk) == []
    for _, damaged in flipped(whole, stride=97):
        disk.set_content(PATH, damaged)
        assert found_in(disk) == []


def test_bytes_of_version_2_never_change(disk: SimulatedDisk) -> None:
    golden = golden_bytes("flush_file_v2.txt")["head"]

    FlushFile(disk, "/l").write(parts())

    content = disk.content(PATH)
    assert content[: len(golden)] == golden
    assert content[len(golden) :] == b"".join(part.data for part in parts())


def test_version_1_is_read_and_puts_pages_into_the_slots_of_their_numbers(
    disk: SimulatedDisk,
) -> None:
    golden = golden_bytes("flush_file_v1.txt")["head"]
    disk.open(PATH, create=True).close()
    disk.set_content(PATH, golden + b"".join(part.data for part in parts()))

    found = found_in(disk)

    assert [slot for _, _, slot, _ in found] == [3, 0, 0]
    assert [data for *_, data in found] == [bytes(part.data) for part in parts()]


# ---------------------------------------------------------------- crash points


def location(number: int, entry_id: int) -> int:
    return number << 34 | entry_id + 1


def state(cache: LedgerCache, ledger_id: int, count: int) -> list[int]:
    return cache.handle(ledger_id).locations_of(range(count)).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_step_leaves_each_ledger_as_it_was_or_as_it_became(seed: int) -> None:
    """Ledgers 1 and 2 have files with entries that no journal has any more; 3 is new."""
    count = 1500
    old = [location(1, e) for e in range(count)]
    new = [location(2, e) for e in range(count)]

    def prepared() -> tuple[SimulatedDisk, LedgerCache]:
        disk = SimulatedDisk()
        cache, _ = open_cache(disk)
        for ledger_id in (1, 2):
            put(cache, ledger_id, dict(enumerate(old)))
        cache.flush()
        for ledger_id in (1, 2, 3):
            put(cache, ledger_id, dict(enumerate(new)))
            cache.handle(ledger_id).set_fenced()
        return disk, cache

    step = 0
    is_done = False
    outcomes = set()
    while not is_done:
        step += 1
        disk, cache = prepared()
        disk.crash_at = disk.operation_count + step
        try:
            cache.flush()
            is_done = True
        except SimulatedCrash:
            pass
        disk.crash(Random(1000 * seed + step))
        # and again while that is mended
        disk.crash_at = disk.operation_count + 1 + step % 5
        try:
            open_cache(disk)
        except SimulatedCrash:
            disk.crash(Random(step))
        disk.crash_at = None

        after, _ = open_cache(disk)

        states = [state(after, ledger_id, count) for ledger_id in (1, 2)]
        assert states in ([old, old], [new, new]), "all of it or nothing"
        info = after.info(1)
        assert info is not None
        assert info.is_fenced == (states[0] == new)
        is_new_here = after.info(3) is not None
        if is_new_here:
            assert state(after, 3, count) == new
        if is_done:
            assert states == [new, new]
            assert is_new_here
        outcomes.add((states[0] == new, is_new_here))
        after.flush()
    assert step > 8
    assert {(False, False), (True, True)} <= outcomes


@pytest.mark.parametrize("end", ["failed fsync", "killed before the fsync"])
def test_a_power_loss_while_a_flush_that_only_the_page_cache_had_is_applied_tears_nothing(
    end: str,
) -> None:
    """Pages in place were torn, and the flush file that mends them was torn, too."""
    count = 600
    values = [[location(number, e) for e in range(count)] for number in range(3)]
    disk = SimulatedDisk()
    cache, _ = open_cache(disk)
    for number in range(3):
        put(cache, 1, dict(enumerate(values[number])))
        if number < 2:
            cache.flush()
    disk.crash_at = disk.operation_count + 3  # the parts are written
    if end == "failed fsync":
        disk.crash_at = None
        disk.faults = [Fault("sync", errno.EIO, path_part=PATH)]
    with pytest.raises((SimulatedCrash, StorageFailedError)):
        cache.flush()
    disk.process_crash()
    assert [one[0] for one in found_in(disk)] == [1, 1], "the page cache has it whole"

    step = 0
    is_done = False
    while not is_done:
        step += 1
        for seed in range(20):
            other = deepcopy(disk)
            other.crash_at = other.operation_count + step
            try:
                open_cache(other)
                is_done = True
            except SimulatedCrash:
                pass
            other.crash(Random(seed))
            other.crash_at = None
            again, _ = open_cache(other)
            assert state(again, 1, count) in values[1:]
    assert step > 4


def test_the_steps_have_an_order(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put(cache, 1, {0: 1})
    flush = cache.begin_flush()

    with pytest.raises(AssertionError, match="entries first"):
        flush.write()
    flush.sync_entry_logs()
    with pytest.raises(AssertionError, match="flush file first"):
        flush.apply()


def test_each_step_is_taken_once(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put(cache, 1, {0: 1})
    cache.flush()
    put(cache, 1, {1: 2})
    flush = cache.begin_flush()
    flush.run()
    before = disk.operation_count

    flush.run()
    flush.write()
    flush.apply()

    assert disk.operation_count == before


@pytest.mark.parametrize("operation", ["pwrite", "sync"])
@pytest.mark.parametrize("skip_count", range(3))
def test_any_failure_ends_it(disk: SimulatedDisk, operation: str, skip_count: int) -> None:
    cache, _ = open_cache(disk)
    put(cache, 1, {0: 1})
    cache.flush()
    for ledger_id in (1, 2):
        put(cache, ledger_id, {1: 2})
    disk.faults = [Fault(operation, errno.EIO, skip_count)]
    flush = cache.begin_flush()

    with pytest.raises(StorageFailedError):
        flush.run()
    with pytest.raises(StorageFailedError):
        flush.run()


def test_a_recovery_that_fails_is_an_error(disk: SimulatedDisk) -> None:
    cache, _ = open_cache(disk)
    put(cache, 1, {0: 1})
    cache.flush()
    put(cache, 1, {1: 2})
    cache.flush()
    disk.process_crash()
    disk.faults = [Fault("sync", errno.EIO)]

    with pytest.raises(StorageFailedError, match="recovery"):
        open_cache(disk)
