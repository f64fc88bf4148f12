"""One sync for all files of a disk: what it does, when it fails, and where it is not used."""

import errno
import os
from pathlib import Path

import pytest

from zbk.system import disk_sync
from zbk.system.files import FsyncError, OsFiles


def test_a_disk_that_can_be_synced_is(tmp_path: Path) -> None:
    if not disk_sync.can_sync_disk(str(tmp_path)):
        pytest.skip("not on this kernel or file system")
    disk = OsFiles().open_disk(str(tmp_path))
    assert disk is not None
    (tmp_path / "f").write_bytes(b"x")

    disk.sync()

    disk.close()
    disk.close()


def test_a_failure_is_that_of_an_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(fd: int) -> None:
        raise OSError(errno.ENOSPC, f"simulated {fd >= 0}")

    monkeypatch.setattr("zbk.system.files.can_sync_disk", lambda _path: True)
    monkeypatch.setattr("zbk.system.files.sync_disk", failing)
    disk = OsFiles().open_disk(str(tmp_path))
    assert disk is not None

    with pytest.raises(FsyncError, match="simulated True"):
        disk.sync()

    disk.close()


def test_the_error_of_the_call_is_raised() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)

    with pytest.raises(OSError, match="Bad file descriptor"):
        disk_sync.sync_disk(writer)


def test_an_older_kernel_does_not_tell_of_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_sync, "KERNEL_MIN", (999, 0))

    assert OsFiles().open_disk(str(tmp_path)) is None


def test_other_file_systems_do_not_promise_it() -> None:
    assert OsFiles().open_disk("/proc") is None
    assert OsFiles().open_disk("/no such directory") is None
