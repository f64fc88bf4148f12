"""Segments before the mark become spares; the journal keeps as many as it needs and uses them."""

import errno

import pytest

from tests.support.journals import DIRECTORY, SEGMENT_SIZE, entries_record, open_journal, replay_all
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import NoSpaceError
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.segment import segment_ids, spare_ids
from zbk.storage.journal.spares import SPARE_COUNT, SPARE_FREE_FACTOR


def filled(disk: SimulatedDisk, count: int) -> Journal:
    """Return a journal that has left so many segments."""
    journal = open_journal(disk)
    fill(journal, count)
    return journal


def fill(journal: Journal, count: int) -> None:
    end = journal.position.segment_id + count
    while journal.position.segment_id < end:
        journal.append([entries_record(1, count=30)])
    journal.sync()


def test_segments_before_the_mark_become_spares_and_are_used_again(disk: SimulatedDisk) -> None:
    journal = filled(disk, 2)
    mark = journal.position

    assert journal.remove_before(mark) == 2
    assert segment_ids(disk, DIRECTORY) == [mark.segment_id]
    assert len(spare_ids(disk, DIRECTORY)) == 2
    assert journal.remove_before(mark) == 0

    journal.append([entries_record(99, count=30)])
    journal.sync()
    assert len(spare_ids(disk, DIRECTORY)) == 1
    assert replay_all(disk, mark)[0] == [entries_record(99, count=30)]


def test_as_many_segments_stay_spare_as_went_at_once(disk: SimulatedDisk) -> None:
    journal = filled(disk, 10)
    assert journal.remove_before(journal.position) == 10
    assert len(spare_ids(disk, DIRECTORY)) == 10

    fill(journal, 9)
    assert len(spare_ids(disk, DIRECTORY)) == 1, "they are used before others are made"
    assert journal.remove_before(journal.position) == 9
    assert len(spare_ids(disk, DIRECTORY)) == 9

    fill(journal, 1)
    assert journal.remove_before(journal.position) == 1
    assert len(spare_ids(disk, DIRECTORY)) == SPARE_COUNT, "of a light load few are needed"
    assert len(disk.list_dir(DIRECTORY)) == 1 + SPARE_COUNT
    assert replay_all(disk, journal.position)[0] == []


@pytest.mark.parametrize("room_count", [0, 6, 100])
def test_spares_take_an_eighth_of_what_is_free(disk: SimulatedDisk, room_count: int) -> None:
    journal = filled(disk, 10)
    disk.capacity = disk.used_size + SPARE_FREE_FACTOR * SEGMENT_SIZE * room_count

    journal.remove_before(journal.position)

    assert len(spare_ids(disk, DIRECTORY)) == min(10, room_count)


def test_a_disk_that_fills_takes_spares_away(disk: SimulatedDisk) -> None:
    journal = filled(disk, SPARE_COUNT)
    journal.remove_before(journal.position)
    assert len(spare_ids(disk, DIRECTORY)) == SPARE_COUNT
    disk.capacity = disk.used_size + SPARE_FREE_FACTOR * SEGMENT_SIZE

    fill(journal, 1)
    journal.remove_before(journal.position)

    assert len(spare_ids(disk, DIRECTORY)) == 1


def test_spares_are_given_up_when_asked_for(disk: SimulatedDisk) -> None:
    journal = filled(disk, 3)
    journal.prepare_next()
    mark = journal.position
    journal.remove_before(mark)

    journal.give_up_spares()
    journal.give_up_spares()

    assert spare_ids(disk, DIRECTORY) == []
    journal.append([entries_record(99, count=30)])
    journal.sync()
    assert replay_all(disk, mark)[0] == [entries_record(99, count=30)]


def test_a_spare_that_cannot_be_removed_now_is_removed_later(disk: SimulatedDisk) -> None:
    journal = filled(disk, 3)
    journal.remove_before(journal.position)
    disk.faults = [Fault("remove", errno.ENOSPC, skip_count=1)]
    with pytest.raises(NoSpaceError):
        journal.give_up_spares()
    assert len(spare_ids(disk, DIRECTORY)) == 2

    journal.give_up_spares()
    assert spare_ids(disk, DIRECTORY) == []


def test_spares_survive_a_restart(disk: SimulatedDisk) -> None:
    journal = open_journal(disk)
    journal.append([entries_record(1, count=30)])
    journal.append([entries_record(2, count=30)])
    journal.sync()
    journal.remove_before(journal.position)
    mark = journal.position
    disk.process_crash()

    _, result = replay_all(disk, mark)
    again = open_journal(disk, result.end)

    assert spare_ids(disk, DIRECTORY) == []
    assert again.position.segment_id == mark.segment_id + 1
