"""Replay of a journal with a torn tail: the tail is cut off, and nothing that was promised is."""

from random import Random

import pytest

from tests.support.journals import (
    DIRECTORY,
    OWNER,
    SEGMENT_1,
    entries_record,
    open_journal,
    replay_all,
    written,
)
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.storage.journal.record import RECORD_HEADER_SIZE, encode_record
from zbk.storage.journal.segment import (
    SEGMENT_HEADER_SIZE,
    encode_header,
    segment_ids,
    segment_path,
    segment_seed,
)


def test_a_tail_torn_at_each_byte_is_cut() -> None:
    """B37: a torn tail, cut lengths among them, is no reason not to start."""
    whole = SimulatedDisk()
    written(whole, [entries_record(1), entries_record(2)], is_noted=False)
    content = whole.content(SEGMENT_1)
    start = SEGMENT_HEADER_SIZE + entries_record(1).size
    for size in range(start, start + entries_record(2).size):
        disk = SimulatedDisk()
        written(disk, [entries_record(1), entries_record(2)], is_noted=False)
        disk.set_content(SEGMENT_1, content[:size] + bytes(len(content) - size))

        found, result = replay_all(disk)

        assert found == [entries_record(1)]
        assert result.end.sequence == 1
        assert not any(disk.content(SEGMENT_1)[start : start + RECORD_HEADER_SIZE]), "cut off"
        assert len(disk.content(SEGMENT_1)) == len(content), "and no shorter"
        assert replay_all(disk)[0] == found


def test_a_body_zeroed_from_the_middle_is_not_served(disk: SimulatedDisk) -> None:
    """B38: half of the last record is zeros."""
    written(disk, [entries_record(1), entries_record(2)], is_noted=False)
    content = disk.content(SEGMENT_1)
    end = SEGMENT_HEADER_SIZE + entries_record(1).size + entries_record(2).size
    disk.set_content(SEGMENT_1, content[: end - 40] + bytes(len(content) - end + 40))

    assert replay_all(disk)[0] == [entries_record(1)]


def test_whole_records_behind_a_torn_one_are_cut_if_none_was_promised(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    promised = [entries_record(n, count=10) for n in range(3)]
    for record in promised:
        journal.append([record])
    journal.sync()
    torn_at = journal.position.offset
    for n in range(3, 12):  # over several segments, under one fsync that never came
        journal.append([entries_record(n, count=10)])
    assert journal.position.segment_id > 2
    disk.process_crash()
    path = segment_path(DIRECTORY, journal.synced_position.segment_id)
    content = disk.content(path)
    disk.set_content(path, content[:torn_at] + bytes(100) + content[torn_at + 100 :])

    found, result = replay_all(disk)

    assert found == promised
    assert result.cut_record_count > 3
    assert segment_ids(disk, DIRECTORY) == [1]
    assert result.end.segment_id == journal.position.segment_id, "no id is used twice"


def test_after_a_cut_the_new_tail_is_not_mistaken_for_what_follows_the_old_one(
    disk: SimulatedDisk,
) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1)])
    journal.sync()
    at = journal.position.offset
    journal.append([entries_record(2)])
    disk.process_crash()
    content = disk.content(SEGMENT_1)
    damaged = content[: at + 90] + b"garbage" + content[at + 97 :]
    disk.set_content(SEGMENT_1, damaged)
    _, result = replay_all(disk)
    again = open_journal(disk, result.end)
    for n in (3, 4):
        again.append([entries_record(n)])
        again.sync()
    again.close()
    disk.process_crash()
    disk.set_content(SEGMENT_1, damaged)  # as if the cut itself had been lost

    assert replay_all(disk)[0] == [entries_record(1), entries_record(3), entries_record(4)]


@pytest.mark.parametrize("seed", range(8))
def test_removed_segments_stay_removed(disk: SimulatedDisk, seed: int) -> None:
    journal = open_journal(disk)
    for n in range(4):
        journal.append([entries_record(n, count=30)])
    disk.process_crash()
    content = disk.content(SEGMENT_1)
    used = SEGMENT_HEADER_SIZE + 100
    disk.set_content(SEGMENT_1, content[:used] + bytes(len(content) - used))

    replay_all(disk)
    disk.crash(Random(seed))

    assert segment_ids(disk, DIRECTORY) == [1]


@pytest.mark.parametrize("seed", range(8))
def test_the_mark_may_be_ahead_of_what_the_journal_has_synced(
    disk: SimulatedDisk, seed: int
) -> None:
    journal = open_journal(disk)
    for n in range(4):
        journal.append([entries_record(n, count=30)])
    mark = journal.position  # all of it is safe elsewhere
    disk.crash(Random(seed))

    found, result = replay_all(disk, mark)

    assert found == []
    assert result.end.sequence == mark.sequence


def test_a_record_that_continues_another_past_is_not_taken(disk: SimulatedDisk) -> None:
    nonce = 5
    seed = segment_seed(OWNER, 1, nonce)
    parts = [encode_header(OWNER, 1, nonce)]
    for sequence, previous in ((1, 0), (2, 12345)):  # the second one's link is to something else
        parts += encode_record(
            entries_record(sequence),
            sequence=sequence,
            synced_sequence=0,
            previous=previous,
            seed=seed,
        )[:2]
    disk.make_dirs(DIRECTORY)
    disk.open(SEGMENT_1, create=True)
    disk.set_content(SEGMENT_1, b"".join(parts))

    found, result = replay_all(disk)

    assert found == [entries_record(1)]
    assert result.cut_record_count == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_step_of_the_cut_changes_nothing(seed: int) -> None:
    def torn() -> SimulatedDisk:
        disk = SimulatedDisk()
        journal = open_journal(disk)
        for n in range(3):
            journal.append([entries_record(n, count=10)])
        journal.sync()
        for n in range(3, 12):
            journal.append([entries_record(n, count=10)])
        return disk.crash(Random(seed))

    wanted, _ = replay_all(torn())
    assert wanted[:3] == [entries_record(n, count=10) for n in range(3)]
    step = 0
    while True:
        disk = torn()
        step += 1
        disk.crash_at = disk.operation_count + step
        try:
            found, _ = replay_all(disk)
        except SimulatedCrash:
            disk.crash(Random(seed + step))
            assert replay_all(disk)[0] == wanted
            continue
        assert found == wanted
        break
    assert step > 1
