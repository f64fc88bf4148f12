"""Compaction of logs that are damaged or cut off: what is sound moves, and the damage stays."""

import copy
import logging

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import read_all
from tests.support.compacted_storage import (
    PAYLOAD_SIZE,
    add,
    check,
    check_clean,
    checkpoint,
    delete,
    disk,
    half_dead,
    logs_of,
    opened,
)
from tests.support.compactions import Compactor
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CorruptRecordError
from zbk.protocol.upkeep.compaction import CompactionLimits
from zbk.storage.replay import add_batches

__all__ = ["disk"]


def test_whatever_byte_of_a_source_is_damaged_nothing_else_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the source stays, as it is, and one line says where."""
    base = SimulatedDisk()
    storage = opened(base, log_size_max=900)
    for first in range(0, 9, 3):
        add(storage, 1, first, count=3)
        add(storage, 2, first, count=3)
    add(storage, 3, count=8)
    checkpoint(storage)
    delete(storage, 2)
    path = base.paths("/l/logs/")[0]
    whole = base.content(path)
    base.process_crash()
    given_up_count = 0
    for at in range(0, len(whole), 3):
        caplog.clear()
        disk = SimulatedDisk()
        disk.__dict__.update(_copied(base))
        disk.set_content(path, bytes([*whole[:at], whole[at] ^ 0x10, *whole[at + 1 :]]))
        storage = opened(disk, log_size_max=900)

        Compactor(storage).major()

        check_clean(disk)
        for first in (3, 6):
            ids = range(first, first + 3)
            assert read_all(storage, 1, ids) == batch_of(1, ids, PAYLOAD_SIZE).body
        if path in disk.paths("/l/logs/"):
            given_up_count += 1
            told = [one for one in caplog.records if one.levelno >= logging.WARNING]
            assert len(told) == 1
            assert path.rpartition("/")[2] in told[0].getMessage() or path in told[0].getMessage()
        else:
            check(storage, 1, 9)  # damage of what is dead, or of nothing
    assert given_up_count > 20


def _copied(disk: SimulatedDisk) -> dict[str, object]:
    return copy.deepcopy(disk.__dict__)


def test_damage_in_one_source_lets_the_others_be_compacted(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    storage = half_dead(disk)
    path = disk.paths("/l/logs/")[2]
    disk.flip_bit(path, 8 * 200)
    before = disk.content(path)
    compactor = Compactor(storage)

    assert compactor.major() == 5

    assert disk.content(path) == before
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert path in told
    assert "at byte" in told
    caplog.clear()
    assert compactor.major() == 0
    assert caplog.records == []
    check_clean(disk)


@pytest.mark.parametrize("is_pointed_at", [False, True])
def test_a_log_whose_last_write_a_kill_cut_off_goes_unless_something_is_read_there(
    caplog: pytest.LogCaptureFixture, is_pointed_at: bool
) -> None:
    """B30: cut at any byte of the last block; what the index has in it is damage, and stays."""
    base = SimulatedDisk()
    storage = opened(base)
    add(storage, 1, count=3)
    if is_pointed_at:
        add(storage, 1, 3, count=3)
    checkpoint(storage)
    if not is_pointed_at:
        add_batches(
            storage.homes, [batch_of(1, range(3, 6), PAYLOAD_SIZE)]
        )  # killed before it was journaled
    path = base.paths("/l/logs/")[0]
    whole = base.content(path)
    start = len(whole) - 3 * 98 - 48
    base.process_crash()
    for size in range(start + 1, len(whole), 7):
        caplog.clear()
        disk = SimulatedDisk()
        disk.__dict__.update(_copied(base))
        disk.set_content(path, whole[:size])
        storage = opened(disk)
        add(storage, 2, count=40)
        checkpoint(storage)

        Compactor(storage, CompactionLimits(major_threshold=1)).major()
        storage.garbages[0].compaction.counts.keep(1, {})  # as if all in it were dead
        Compactor(storage).major()

        is_short = size < start + 48  # no block, so nothing can be in it
        stays = is_pointed_at and not is_short
        assert (1 in logs_of(disk)) is stays
        warnings = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert bool(warnings) is stays
        assert read_all(storage, 1, range(3)) == batch_of(1, range(3), PAYLOAD_SIZE).body
        check_clean(disk)


def test_what_a_cut_off_block_may_hold_is_looked_up_piece_by_piece(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    add(storage, 1, count=3)
    add(storage, 1, 3, count=3)
    checkpoint(storage)
    (path,) = disk.paths("/l/logs/")
    disk.process_crash()
    disk.set_content(path, disk.content(path)[:-1])
    core = opened(disk).garbages[0].compaction
    header = core.torn_block(1)
    assert header is not None
    assert header.first_entry_id == 3

    assert core.look_behind(1, header, 0, 2) == (False, 2)
    assert core.look_behind(1, header, 2, 2) == (True, 4)
    assert core.look_behind(1, header, 4, 2) == (True, 6)
    assert core.look_behind(1, header, 6, 2) == (False, None)


def test_a_log_whose_end_is_seen_otherwise_meanwhile_is_left_alone(disk: SimulatedDisk) -> None:
    """Seed 4390: it was an assertion, and the bookie's end."""
    storage = opened(disk)
    add(storage, 1, count=3)
    add(storage, 1, 3, count=3)
    checkpoint(storage)
    (path,) = disk.paths("/l/logs/")
    disk.process_crash()
    whole = disk.content(path)
    disk.set_content(path, whole[:-1])
    core = opened(disk).garbages[0].compaction
    header, torn = core.torn_block(1), core._uses.use_of(1).torn
    assert header is not None
    assert torn is not None

    assert core._lost.note(1, [(torn.offset, len(whole))])  # as the scrubber does

    with pytest.raises(CorruptRecordError, match="end has changed"):
        core.look_behind(1, header, 0, 2)
