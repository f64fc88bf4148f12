"""A test run that is killed leaves no file system mounted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mounts import Mount, missing_program
from tests.support.waiting import wait_until

OWNER = """
import sys
from pathlib import Path
from tests.support.mounts import Mount

mount = Mount(Path(sys.argv[1]), "-t", "tmpfs", "-o", "size=1m", "zbk-test")
print("mounted", flush=True)
sys.stdin.read()
"""
ARGUMENTS = ("-t", "tmpfs", "-o", "size=1m", "zbk-test")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a tmpfs is mounted by root only"),
    pytest.mark.skipif(missing_program() != "", reason="no mount command here"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder, on a machine where something can be mounted there."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        Mount(folder, *ARGUMENTS).unmount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs can be mounted here: {error.stderr.strip()}")
    return folder


def test_what_a_killed_process_had_mounted_goes_with_it(folder: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"mounted\n"
    assert folder.is_mount()

    owner.kill()
    owner.communicate()

    wait_until(lambda: not folder.is_mount(), what="the end of the mount")


def test_what_was_unmounted_can_be_mounted_again(folder: Path) -> None:
    for _ in range(2):
        mount = Mount(folder, *ARGUMENTS)
        assert folder.is_mount()
        mount.unmount()
        assert not folder.is_mount()


def test_what_cannot_be_mounted_says_why(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        Mount(tmp_path / "missing", *ARGUMENTS)
    assert "mount point" in caught.value.stderr
