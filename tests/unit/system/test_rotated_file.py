"""A file that is rotated by size, also by several processes."""

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from zbk.system.rotated_file import RotatedFile


def test_full_files_move_on_and_the_oldest_goes(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "audit", size_max=10, file_count=3)
    for number in range(5):
        file.append(b"line %d\n" % number)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["audit", "audit.1", "audit.2"]
    assert [(tmp_path / name).read_bytes() for name in ("audit.2", "audit.1", "audit")] == [
        b"line 2\n",
        b"line 3\n",
        b"line 4\n",
    ]
    assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}


def test_a_lone_file_begins_again(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "audit", size_max=10, file_count=1)
    for number in range(3):
        file.append(b"line %d\n" % number)
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"line 2\n"]


def test_writers_of_one_path_lose_no_line(tmp_path: Path) -> None:
    def write(name: int) -> None:
        file = RotatedFile(tmp_path / "audit", size_max=200, file_count=100)
        for number in range(50):
            file.append(b"%d %d\n" % (name, number))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    lines = [line for one in tmp_path.iterdir() for line in one.read_text("ascii").splitlines()]
    assert sorted(lines) == sorted(f"{name} {n}" for name in range(4) for n in range(50))


def test_a_link_and_a_file_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "open").touch(mode=0o644)
    (tmp_path / "open").chmod(0o644)
    for name in ("link", "open", "gone/audit"):
        with pytest.raises(OSError, match=name.partition("/")[0]) as caught:
            RotatedFile(tmp_path / name, 10, 2).append(b"line\n")
        assert caught.value.filename == str(tmp_path / name)
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_is_full_halfway_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RotatedFile(tmp_path / "audit", 1_000, 2)
    file.append(b"line 1\n")
    free_size, write = 10, os.write

    def write_some(descriptor: int, data: memoryview) -> int:
        nonlocal free_size
        if not free_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written_size = write(descriptor, data[:free_size])
        free_size -= written_size
        return written_size

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_some)
        with pytest.raises(OSError, match="audit"):
            file.append(b"line 2\nline 3\n")
    file.append(b"line 4\n")

    assert file.path.read_bytes() == b"line 1\nline 4\n"


def test_a_rotation_that_fails_leaves_no_lock_and_no_descriptor(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "audit", 10, 2)
    file.append(b"line 1\n")
    (tmp_path / "audit.1" / "in the way").mkdir(parents=True)
    opened = set(Path("/proc/self/fd").iterdir())
    for _ in range(2):
        with pytest.raises(OSError, match="audit"):
            file.append(b"line 2\n")
        with file.path.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert set(Path("/proc/self/fd").iterdir()) <= opened
