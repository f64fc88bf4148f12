"""Shared open files: bounded, never closed under a user, closed once forgotten."""

from contextlib import ExitStack

import pytest

from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.disk.open_files import OpenFiles


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_dirs("/d")
    for n in range(10):
        file = disk.open(f"/d/{n}", create=True)
        file.pwrite([b"%d" % n], 0)
        file.close()
    return disk


def read(files: OpenFiles, n: int) -> bytes:
    with files.use(f"/d/{n}") as file:
        return file.pread(9, 0)


def test_no_more_files_are_open_than_allowed(disk: SimulatedDisk) -> None:
    files = OpenFiles(disk, open_max=3)

    for _ in range(3):
        assert [read(files, n) for n in range(10)] == [b"%d" % n for n in range(10)]

    assert files.open_count == disk.open_count == 3
    assert disk.open_count_max <= 4


def test_the_one_used_longest_ago_is_closed(disk: SimulatedDisk) -> None:
    files = OpenFiles(disk, open_max=2)
    for n in (0, 1, 0, 2):
        read(files, n)
    disk.remove("/d/0")  # it stays open, and can be read
    assert read(files, 0) == b"0"
    disk.remove("/d/1")
    with pytest.raises(FileNotFoundError):
        read(files, 1)


def test_a_file_in_use_is_not_closed(disk: SimulatedDisk) -> None:
    files = OpenFiles(disk, open_max=1)
    with ExitStack() as stack:
        used = [stack.enter_context(files.use(f"/d/{n}")) for n in range(5)]
        files.forget("/d/3")
        assert [file.pread(9, 0) for file in used] == [b"%d" % n for n in range(5)]
    assert read(files, 9) == b"9"
    assert files.open_count == disk.open_count == 1


def test_a_forgotten_file_is_opened_anew(disk: SimulatedDisk) -> None:
    files = OpenFiles(disk, open_max=5)
    read(files, 1)
    disk.remove("/d/1")
    files.forget("/d/1")
    files.forget("/d/2")  # was not open
    assert disk.open_count == 0

    with pytest.raises(FileNotFoundError):
        read(files, 1)


def test_close_closes_all(disk: SimulatedDisk) -> None:
    files = OpenFiles(disk, open_max=5)
    for n in range(4):
        read(files, n)

    files.close()

    assert files.open_count == disk.open_count == 0
