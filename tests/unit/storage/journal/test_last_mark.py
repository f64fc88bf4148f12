"""The last log mark: two slots, never back, and nothing taken from a torn one."""

import errno
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import cut, flipped
from tests.support.golden_bytes import golden_bytes
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import CorruptRecordError, StorageFailedError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.last_mark import LastMark, LogMark, decode_slot, encode_slot
from zbk.storage.journal.segment import NO_POSITION, JournalPosition

PATH = "/l/last_mark"

u64 = st.integers(0, 2**64 - 1)
positions = st.builds(JournalPosition, u64, u64, u64, u64)
marks = st.builds(LogMark, st.lists(positions, min_size=1, max_size=8).map(tuple), u64)


def mark_at(number: int) -> LogMark:
    return LogMark((JournalPosition(number, 64, number * 10, number * 7),), number)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    return disk


def opened(disk: SimulatedDisk) -> LastMark:
    last_mark = LastMark(disk, "/l", FailStop())
    last_mark.load()
    return last_mark


@given(mark=marks, generation=u64)
def test_decode_undoes_encode(mark: LogMark, generation: int) -> None:
    assert decode_slot(encode_slot(mark, generation)) == (generation, mark)


@pytest.mark.parametrize("has_census", [True, False])
@pytest.mark.parametrize("journal_count", [1, 2, 8])
def test_no_cut_and_no_flipped_bit_of_a_slot_is_taken(journal_count: int, has_census: bool) -> None:
    positions = mark_at(3).positions * journal_count
    slot = encode_slot(LogMark(positions, 3, has_census, 4096 * has_census), 1)
    assert all(decode_slot(short) is None for short in cut(slot))
    assert all(decode_slot(damaged) is None for _, damaged in flipped(slot))


def test_bytes_of_version_1_never_change() -> None:
    golden = golden_bytes("last_mark_v1.txt")["slot"]

    assert encode_slot(mark_at(3), 5) == golden
    assert decode_slot(golden) == (5, mark_at(3))


def test_bytes_of_version_2_never_change() -> None:
    golden = golden_bytes("last_mark_v2.txt")["slot"]
    mark = LogMark((*mark_at(3).positions, *mark_at(8).positions), 5)

    assert encode_slot(mark, 5) == golden
    assert decode_slot(golden) == (5, mark)


def test_bytes_of_version_3_never_change() -> None:
    """It is written beside a census."""
    golden = golden_bytes("last_mark_v3.txt")["slot"]
    positions = (*mark_at(3).positions, *mark_at(8).positions)
    mark = LogMark(positions, 5, has_census=True, entry_log_size=4096)

    assert encode_slot(mark, 5) == golden
    assert decode_slot(golden) == (5, mark)


def test_once_there_is_a_census_every_later_mark_says_so(disk: SimulatedDisk) -> None:
    last_mark = opened(disk)
    last_mark.write(mark_at(2))
    positions = mark_at(5).positions
    last_mark.write(LogMark(positions, 5, has_census=True, entry_log_size=70))

    last_mark.write(LogMark(mark_at(7).positions, 5, entry_log_size=20))

    mark = LogMark(mark_at(7).positions, 5, has_census=True, entry_log_size=70)
    assert opened(disk).mark == mark
    assert mark.max_with(LogMark(positions, 6)).entry_log_size == 0


def test_no_journal_goes_back_while_another_one_goes_on(disk: SimulatedDisk) -> None:
    """B39: marks of overlapping checkpoints are merged, place by place."""
    last_mark = opened(disk)
    low, high = mark_at(2).positions, mark_at(7).positions
    last_mark.write(LogMark((*low, *high), 3))

    last_mark.write(LogMark((*high, *low), 2))

    assert opened(disk).mark == LogMark((*high, *high), 3)


def test_a_journal_that_is_forgotten_begins_at_its_start(disk: SimulatedDisk) -> None:
    last_mark = opened(disk)
    both = LogMark((*mark_at(2).positions, *mark_at(7).positions), 3)
    last_mark.write(both)

    last_mark.forget(1)
    assert opened(disk).mark == both
    last_mark.write(both.without(1))

    assert opened(disk).mark == LogMark((*mark_at(2).positions, NO_POSITION), 3)


def test_there_is_none_at_first(disk: SimulatedDisk) -> None:
    last_mark = opened(disk)

    assert last_mark.mark is None


def test_the_last_one_written_is_found(disk: SimulatedDisk) -> None:
    last_mark = opened(disk)
    for n in range(1, 6):
        last_mark.write(mark_at(n))
        assert last_mark.mark == mark_at(n)
        assert opened(disk).mark == mark_at(n)


def test_an_older_mark_changes_nothing(disk: SimulatedDisk) -> None:
    """B39: checkpoints that overlap do not move the mark back."""
    last_mark = opened(disk)
    last_mark.write(mark_at(5))

    last_mark.write(mark_at(4))
    assert opened(disk).mark == last_mark.mark == mark_at(5)
    before = disk.operation_count
    last_mark.write(mark_at(5))
    assert disk.operation_count == before


def test_the_same_place_with_a_newer_entry_log_is_a_newer_mark(disk: SimulatedDisk) -> None:
    last_mark = opened(disk)
    last_mark.write(mark_at(5))
    newer = LogMark(mark_at(5).positions, 6)

    last_mark.write(newer)

    assert opened(disk).mark == newer


def test_the_slots_are_written_in_turn(disk: SimulatedDisk) -> None:
    last_mark = opened(disk)
    for n in range(1, 8):
        last_mark.write(mark_at(n))
        content = disk.content(PATH)
        slots = {decode_slot(content[at : at + 64]) for at in (0, 512)}
        assert slots == {(n, mark_at(n)), None if n == 1 else (n - 1, mark_at(n - 1))}


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_at_any_step_leaves_the_old_or_the_new_one(seed: int) -> None:
    """B39: there is always one, and it is one of the two."""
    for count in range(4):
        step = 0
        is_done = False
        while not is_done:
            step += 1
            disk = SimulatedDisk()
            disk.make_dirs("/l")
            last_mark = opened(disk)
            for n in range(1, count + 1):
                last_mark.write(mark_at(n))
            disk.crash_at = disk.operation_count + step
            try:
                last_mark.write(mark_at(count + 1))
                is_done = True
            except SimulatedCrash:
                pass
            disk.crash(Random(seed * 100 + step))

            found = opened(disk)

            old = mark_at(count) if count else None
            assert found.mark == mark_at(count + 1) or (not is_done and found.mark == old)
            found.write(mark_at(count + 2))
            assert opened(disk).mark == mark_at(count + 2)
        assert step >= 2


def test_one_damaged_slot_leaves_the_other(disk: SimulatedDisk) -> None:
    last_mark = opened(disk)
    last_mark.write(mark_at(1))
    last_mark.write(mark_at(2))
    disk.flip_bit(PATH, 8 * 30)  # generation 2 is in the first slot

    assert opened(disk).mark == mark_at(1)


@pytest.mark.parametrize("content", [b"", b"short", bytes(576), b"\xff" * 576])
def test_a_file_without_a_whole_slot_is_refused(disk: SimulatedDisk, content: bytes) -> None:
    opened(disk).write(mark_at(1))
    disk.set_content(PATH, content)

    with pytest.raises(CorruptRecordError, match="last log mark"):
        opened(disk)


@pytest.mark.parametrize("operation", ["pwrite", "sync"])
def test_a_failed_write_is_the_end(disk: SimulatedDisk, operation: str) -> None:
    last_mark = opened(disk)
    last_mark.write(mark_at(1))
    disk.faults = [Fault(operation, errno.EIO)]

    with pytest.raises(StorageFailedError, match="last_mark"):
        last_mark.write(mark_at(2))
    with pytest.raises(StorageFailedError):
        last_mark.write(mark_at(3))

    assert last_mark.mark == mark_at(1)
