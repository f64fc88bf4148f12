"""A disk whose fsyncs take longer, and whose files are files otherwise."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.slow_disk import SlowFiles
from zbk.system.clock import monotonic_s

DELAY_S = 0.03


def seconds_of(call: Callable[[], object]) -> float:
    started_s = monotonic_s()
    call()
    return monotonic_s() - started_s


def test_each_fsync_takes_so_much_longer(tmp_path: Path) -> None:
    files = SlowFiles(DELAY_S)
    file = files.open(str(tmp_path / "one"), create=True)

    assert seconds_of(file.sync) >= DELAY_S
    assert seconds_of(lambda: files.sync_dir(str(tmp_path))) >= DELAY_S
    file.close()


def test_a_sync_of_the_whole_disk_does_too_where_there_is_one(tmp_path: Path) -> None:
    disk = SlowFiles(DELAY_S).open_disk(str(tmp_path))
    if disk is None:
        pytest.skip("files are synced one by one here")

    assert seconds_of(disk.sync) >= DELAY_S
    disk.close()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = str(tmp_path / "one")
    file = SlowFiles(DELAY_S).open(path, create=True)

    file.allocate(8_192)
    assert file.pwrite([b"some ", b"bytes"], 3) == 10
    file.truncate(13)

    assert file.path == path
    assert file.size() == 13
    assert file.pread(100, 3) == b"some bytes"
    file.close()
