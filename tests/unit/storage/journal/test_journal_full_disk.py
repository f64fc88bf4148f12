"""The journal on a full disk: what found no space is done later, and hides nothing."""

import errno

import pytest

from tests.support.journals import DIRECTORY, entries_record, open_journal, replay_all
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import NoSpaceError
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE, segment_ids, spare_ids
from zbk.storage.journal.spares import SMALL_SEGMENT_SIZE


def test_an_append_that_found_no_space_is_written_over_by_the_next(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    before = journal.append([entries_record(1)])
    disk.faults = [Fault("pwrite", errno.ENOSPC)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(2), entries_record(3)])
    assert journal.position == before

    journal.append([entries_record(4)])
    journal.sync()

    disk.process_crash()
    assert replay_all(disk)[0] == [entries_record(1), entries_record(4)]


@pytest.mark.parametrize("is_retried", [True, False])
def test_what_a_failed_append_left_does_not_hide_the_next_segment(
    disk: SimulatedDisk, is_retried: bool
) -> None:
    """A part of it, whole records, would continue the chain behind the end."""
    journal = open_journal(disk)
    journal.append([entries_record(1, count=20)])
    disk.faults = [Fault("pwrite", errno.ENOSPC)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(n) for n in range(2, 8)])
    found = [entries_record(1, count=20)]
    if is_retried:
        journal.append([entries_record(2)])
        found.append(entries_record(2))
    segment_id = journal.position.segment_id

    journal.append([entries_record(9, count=40)])
    journal.sync()

    assert journal.position.segment_id > segment_id, "the test wants a new segment"
    disk.process_crash()
    assert replay_all(disk)[0] == [*found, entries_record(9, count=40)]


@pytest.mark.parametrize("operation", ["create", "allocate", "pwrite"])
def test_a_segment_that_found_no_space_is_taken_away_and_made_later(
    disk: SimulatedDisk, operation: str
) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1, count=30)])
    # with "allocate": neither a whole one nor a small one
    disk.faults = [Fault(operation, errno.ENOSPC) for _ in range(2)]
    with pytest.raises(NoSpaceError):
        journal.append([entries_record(2, count=40)])
    assert segment_ids(disk, DIRECTORY) == [1]
    disk.faults = []

    journal.append([entries_record(2, count=40)])
    journal.sync()

    assert segment_ids(disk, DIRECTORY) == [1, 2]
    disk.process_crash()
    assert replay_all(disk)[0] == [entries_record(1, count=30), entries_record(2, count=40)]


def test_without_room_for_a_whole_segment_a_small_one_is_made(disk: SimulatedDisk) -> None:
    disk.make_dirs(DIRECTORY)
    disk.capacity = SMALL_SEGMENT_SIZE
    journal = open_journal(disk, segment_size=4 * SMALL_SEGMENT_SIZE)
    assert disk.used_size == SMALL_SEGMENT_SIZE
    assert journal.room_size == SMALL_SEGMENT_SIZE - SEGMENT_HEADER_SIZE

    large = [entries_record(n, payload_size=10_000) for n in range(40)]
    disk.capacity = 4 * SMALL_SEGMENT_SIZE
    journal.append(large)
    journal.append(large)
    journal.sync()

    assert segment_ids(disk, DIRECTORY) == [1, 2]
    disk.process_crash()
    assert replay_all(disk)[0] == large + large


def test_a_spare_is_used_though_there_is_no_space(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    for n in range(3):
        journal.append([entries_record(n, count=40)])
        journal.sync()
    journal.remove_before(journal.position)
    assert spare_ids(disk, DIRECTORY)
    disk.capacity = disk.used_size

    journal.append([entries_record(4, count=40)])
    journal.sync()

    assert journal.position.segment_id == 4


def test_a_removal_that_found_no_space_goes_on_where_it_stopped(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    for n in range(4):
        journal.append([entries_record(n, count=40)])
        journal.sync()
    disk.faults = [Fault("rename", errno.ENOSPC, skip_count=1)]
    with pytest.raises(NoSpaceError):
        journal.remove_before(journal.position)

    assert journal.remove_before(journal.position) == 2
    assert segment_ids(disk, DIRECTORY) == [4]
