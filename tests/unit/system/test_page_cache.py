"""Files in and out of memory."""

from pathlib import Path

import pytest

from zbk.system.page_cache import drop_from_memory, size_in_memory

SIZE = 1024 * 1024


def test_a_file_just_written_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))

    assert size_in_memory(str(path)) == SIZE


def test_a_dropped_file_is_on_its_disk_only_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * SIZE)

    drop_from_memory(str(path))

    if size_in_memory(str(path)) == SIZE:
        pytest.skip("the folder for tests is in memory itself")
    assert size_in_memory(str(path)) == 0
    assert path.read_bytes() == b"x" * SIZE


def test_an_empty_file_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()

    drop_from_memory(str(path))

    assert size_in_memory(str(path)) == 0


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        size_in_memory(str(tmp_path / "file"))
