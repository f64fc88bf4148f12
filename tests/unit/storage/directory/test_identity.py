"""How often a bookie has started: a number that never goes back, whatever becomes of its file."""

import pytest

from tests.support.damage import cut, flipped
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import CorruptRecordError
from zbk.storage.directory.identity import next_incarnation, read_incarnation

PATH = "/l/incarnation"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/l")
    for _ in range(12):
        next_incarnation(disk, "/l")
    return disk


def test_golden_text(disk: SimulatedDisk) -> None:
    assert disk.content(PATH) == b"12 7ecd2e572c949f74\n"


def test_a_file_of_before_there_was_a_checksum_is_read(disk: SimulatedDisk) -> None:
    disk.set_content(PATH, b"7\n")

    assert next_incarnation(disk, "/l") == 8


def test_no_flipped_bit_and_no_cut_lets_a_number_be_used_again(disk: SimulatedDisk) -> None:
    content = disk.content(PATH)
    for damaged in (*(one for _, one in flipped(content)), *cut(content)):
        disk.set_content(PATH, damaged)
        with pytest.raises(CorruptRecordError, match="number of starts"):
            read_incarnation(disk, "/l")


def test_the_highest_number_of_several_directories_counts(disk: SimulatedDisk) -> None:
    disk.make_dirs("/l2")

    assert next_incarnation(disk, "/l", "/l2") == 13
    assert read_incarnation(disk, "/l2") == 13
