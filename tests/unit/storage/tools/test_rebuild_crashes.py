"""An index made anew by a run that a crash, an error or a full disk ends: the next run ends it."""

import errno
from contextlib import suppress
from random import Random

import pytest

from tests.support.bookie_storages import TwinnedStorage, storage_on
from tests.support.crash_points import left_by_crashes
from tests.support.index_rebuilds import (
    INDEX_7,
    LOST_IDS,
    check,
    filled,
    lose_index,
    rebuild,
    tell_all,
)
from tests.support.power_cuts import NothingKept
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import BookieError, StorageFailedError, ZbkError


def test_a_full_disk_leaves_the_old_index() -> None:
    twin = filled()
    twin.disk.capacity = twin.disk.used_size + 10_000

    with pytest.raises(StorageFailedError):
        rebuild(twin.disk)
    assert not twin.disk.exists("/l/rebuild")
    twin.disk.capacity = None
    check(twin)


STEP_COUNT_MAX = 140


@pytest.mark.parametrize("is_index_lost", [False, True])
@pytest.mark.parametrize("is_power_lost", [False, True])
def test_whatever_step_is_the_last_the_next_run_ends_it(
    *, is_index_lost: bool, is_power_lost: bool
) -> None:
    """B35: and in between the bookie starts with a whole index, or not at all."""
    fenced_ids = LOST_IDS if is_index_lost else ()
    whole = filled(is_journal_long=True)
    if is_index_lost:
        lose_index(whole.disk)
    left = left_by_crashes(whole.disk, lambda: rebuild(whole.disk, tell_all), whole.copy)
    assert 20 < len(left) < STEP_COUNT_MAX
    for step, twin in enumerate(left[:-1], 1):
        disk = twin.disk
        if is_power_lost:
            disk.crash(Random(step))
        else:
            disk.process_crash()
        _start_or_refuse(twin, step, is_index_lost=is_index_lost)
        rebuild(disk, tell_all)
        assert not disk.exists("/l/rebuild"), step
        if is_index_lost:
            twin.promised[7].lac = -1
        check(twin, *fenced_ids)


def _start_or_refuse(twin: TwinnedStorage, step: int, *, is_index_lost: bool) -> None:
    """The bookie starts only on an index that is whole: the old one or the new one."""
    storage = storage_on(twin.disk)
    try:
        storage.open()
    except BookieError as error:
        if "rebuild-index" not in str(error):
            raise
        twin.disk.process_crash()
        return
    for ledger_id, known in twin.promised.items():
        for entry_id in known.entries:
            assert storage.homes.ledger(ledger_id).resolve([entry_id], 1 << 20) is not None, (
                step,
                entry_id,
            )
    storage.close()
    assert not is_index_lost or twin.disk.exists(INDEX_7)


def test_an_error_at_any_call_leaves_an_index_to_start_on_or_a_note() -> None:
    for operation in ("pwrite", "sync", "create", "rename", "remove", "sync_dir", "pread"):
        for skip_count in range(60):
            twin = filled()
            twin.disk.faults.append(Fault(operation, errno.EIO, skip_count))
            with suppress(ZbkError):
                rebuild(twin.disk, tell_all)
            was_met = not twin.disk.faults
            twin.disk.process_crash()
            if not was_met:
                break
            _start_or_refuse(twin, skip_count, is_index_lost=False)


@pytest.mark.parametrize("count", range(1, 9))
def test_an_index_made_anew_points_at_no_bytes_that_only_the_page_cache_has(count: int) -> None:
    """A start took them for stored, and then the journal, which had them too, was released."""
    twin = TwinnedStorage(SimulatedDisk())
    twin.open()
    twin.add(7, range(3))
    twin.finish_checkpoint()
    for entry_id in range(3, 3 + count):  # what a failed fsync keeps is drawn
        twin.add(7, [entry_id])
        twin.sync()
    twin.disk.faults.append(Fault("sync", errno.EIO, path_part=".log"))
    with pytest.raises(StorageFailedError):
        twin.finish_checkpoint()
    twin.kill()
    rebuild(twin.disk, tell_all)

    check(twin)
    twin.lose_power(NothingKept(1))

    check(twin)
