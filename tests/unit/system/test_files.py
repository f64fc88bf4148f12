"""The files of the operating system: errors that name the file, and writes that come short."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zbk.system.files import File, OsFiles


@pytest.fixture
def file(tmp_path: Path) -> File:
    return OsFiles().open(str(tmp_path / "f"), create=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda file: file.pread(10, 0),
        lambda file: file.skip_zeros(0),
        lambda file: file.pwrite([b"x"], 0),
        lambda file: file.allocate(4096),
        lambda file: file.truncate(1),
    ],
    ids=["pread", "skip_zeros", "pwrite", "allocate", "truncate"],
)
def test_an_error_of_a_call_on_a_descriptor_names_the_file(
    file: File, call: Callable[[File], object]
) -> None:
    file.close()

    with pytest.raises(OSError, match=file.path) as caught:
        call(file)

    assert caught.value.errno == errno.EBADF


def test_a_write_that_comes_short_is_gone_on_with(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal, a limit, or a disk that is nearly full: some calls write less than they should."""

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        return whole(fd, data[: max(1, len(data) // 2)], offset)

    whole = os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: pwrite(fd, buffers[0], offset))
    monkeypatch.setattr(os, "pwrite", pwrite)

    assert file.pwrite([b"0123", b"45", b"6789"], 3) == 10

    assert file.pread(100, 0) == bytes(3) + b"0123456789"


@pytest.mark.parametrize("short_count", range(4))
def test_no_space_behind_a_short_write_is_an_error(
    file: File, monkeypatch: pytest.MonkeyPatch, short_count: int
) -> None:
    calls: list[int] = []

    def pwrite(_fd: int, data: bytes, _offset: int) -> int:
        if len(calls) == short_count:
            raise OSError(errno.ENOSPC, "no space")
        calls.append(len(data))
        return 1

    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: pwrite(fd, buffers[0], offset))
    monkeypatch.setattr(os, "pwrite", pwrite)

    with pytest.raises(OSError, match=file.path) as caught:
        file.pwrite([b"0123", b"456789"], 0)

    assert caught.value.errno == errno.ENOSPC
