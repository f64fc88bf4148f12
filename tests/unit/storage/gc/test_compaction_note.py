"""The note of a compaction: whole, or nothing worth."""

import errno
from random import Random

import pytest

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.gc.compaction_note import CompactionNote, CompactionPlan, decode_plan, encode_plan

OWNER_HASH = checksum(b"bookie-1")
PLAN = CompactionPlan(9, (3, 5, 7))


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def test_golden_bytes() -> None:
    golden = golden_bytes("compaction_v1.txt")["file"]
    assert encode_plan(PLAN, OWNER_HASH) == golden
    assert decode_plan(golden, OWNER_HASH, "note") == PLAN


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    whole = encode_plan(PLAN, OWNER_HASH)
    for damaged in [*(data for _, data in flipped(whole)), *cut(whole), whole + b"x"]:
        with pytest.raises(CorruptRecordError):
            decode_plan(damaged, OWNER_HASH, "note")


def test_the_note_of_another_bookie_is_worth_nothing() -> None:
    with pytest.raises(CorruptRecordError, match="another bookie"):
        decode_plan(encode_plan(PLAN, OWNER_HASH), checksum(b"bookie-2"), "note")


def test_what_is_noted_is_there_until_it_is_removed(disk: SimulatedDisk) -> None:
    note = CompactionNote(disk, "/l", b"bookie-1")
    assert note.read() is None
    note.write(PLAN)
    assert note.is_there
    disk.crash(Random(1))
    assert note.read() == PLAN
    note.remove()
    disk.crash(Random(1))
    assert note.read() is None
    note.remove()


def test_a_crash_leaves_the_old_note_or_the_new_one(disk: SimulatedDisk) -> None:
    other = CompactionPlan(12, (9,))
    for step in range(1, 8):
        for seed in range(6):
            note = CompactionNote(disk, "/l", b"bookie-1")
            note.write(PLAN)
            disk.crash_at = disk.operation_count + step
            try:
                note.write(other)
                disk.crash_at = None
            except SimulatedCrash:
                pass
            disk.crash(Random(seed))
            assert note.read() in {PLAN, other}


@pytest.mark.parametrize("operation", ["create", "pwrite", "rename"])
def test_what_cannot_be_noted_leaves_nothing(disk: SimulatedDisk, operation: str) -> None:
    note = CompactionNote(disk, "/l", b"bookie-1")
    disk.faults = [Fault(operation, errno.ENOSPC)]
    with pytest.raises(OSError, match="simulated"):
        note.write(PLAN)
    assert disk.paths("/l") == []
