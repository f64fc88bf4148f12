"""The first byte that is not zero: in holes, in unwritten and dirty pages, at any alignment."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zbk.system.page_cache import size_in_memory
from zbk.system.zero_bytes import CHUNK_SIZE, skip_zeros

SIZE = 3 * CHUNK_SIZE
PLACES = (1, 4095, 4096, 4097, CHUNK_SIZE - 1, CHUNK_SIZE, 2 * CHUNK_SIZE + 5, SIZE - 1)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(fd, 0, SIZE)
    yield fd
    os.close(fd)


@pytest.fixture(params=["directly", "through the page cache"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "directly":

        def refuse(fd: int, command: int, *rest: int) -> int:
            if command == fcntl.F_SETFL:
                raise OSError(errno.EINVAL, "no direct reads")
            return whole(fd, command, *rest)

        whole = fcntl.fcntl
        monkeypatch.setattr(fcntl, "fcntl", refuse)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("place", PLACES)
def test_a_byte_that_was_just_written_is_found_from_wherever_the_search_begins(
    fd: int, place: int
) -> None:
    os.pwrite(fd, b"x", 0)  # before the search begins: not found
    os.pwrite(fd, b"y", place)

    starts = {1, place // 2 or 1, max(1, place - 1), place}

    assert {skip_zeros(fd, start) for start in starts} == {place}


@pytest.mark.usefixtures("way")
def test_the_next_byte_is_found_behind_the_one_before(fd: int) -> None:
    for place in PLACES:
        os.pwrite(fd, b"y", place)

    found, offset = [], 0
    while (offset := skip_zeros(fd, offset)) < SIZE:
        found.append(offset)
        offset += 1

    assert found == list(PLACES)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [0, 5, 4096, SIZE, SIZE + 5])
def test_zeros_to_the_end_give_the_end(fd: int, size: int) -> None:
    os.ftruncate(fd, size)

    assert skip_zeros(fd, 0) == size
    assert skip_zeros(fd, size) == size
    assert skip_zeros(fd, size + 5) == size + 5


def test_a_hole_is_zeros(fd: int) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"y", SIZE)

    assert skip_zeros(fd, 0) == SIZE


def test_reads_of_the_descriptor_go_through_the_page_cache_again_afterwards(fd: int) -> None:
    skip_zeros(fd, 0)

    assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT
    assert os.pread(fd, 3, 1) == bytes(3)


def test_a_failed_read_is_raised(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(errno.EIO, "a bad sector")

    monkeypatch.setattr(os, "preadv", fail)

    with pytest.raises(OSError, match="a bad sector"):
        skip_zeros(fd, 0)

    assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT


def test_an_unwritten_file_takes_no_memory(fd: int, tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path / "f", os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system reads through the page cache only")

    assert skip_zeros(fd, 0) == SIZE

    assert size_in_memory(str(tmp_path / "f")) == 0
