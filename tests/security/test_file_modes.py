"""The files of a cluster on this machine: for their owner only, whatever the umask is."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Shell


@pytest.fixture(scope="module", params=["sqlite", "zookeeper"])
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of a cluster that was filled with an umask of 0, in one that exists."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    data = shell.home / "cluster"
    data.mkdir(mode=0o755)
    flags = ["--zookeeper"] if request.param == "zookeeper" else []
    running = shell.start("up", "--secure", "--data", "cluster", "-o", "json", *flags, umask=0)
    assert running.stdout is not None
    line = running.stdout.readline()
    assert line, running.communicate()[1].decode()
    ready: dict[str, Any] = json.loads(line)
    user = Shell(shell.home, ready["environment"] | {"ZBK_METADATA": ready["metadata"]})
    try:
        user.run("ledger", "append", "-", stdin=b"one\n")
        yield data
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)


def test_every_file_and_every_directory_is_private(folder: Path) -> None:
    found = [path for path in folder.rglob("*") if not path.is_symlink()]
    public = {path.name for path in found if path.suffix == ".pub"}

    assert len(found) > 40
    exposed = [
        f"{path.relative_to(folder)} {path.stat().st_mode & 0o777:o}"
        for path in found
        if path.stat().st_mode & 0o077 and path.name not in public
    ]
    assert exposed == []


def test_a_healthy_start_reports_no_exposure(folder: Path) -> None:
    assert "directory_exposed" not in (folder / "bookie0.log").read_text()
    assert "every user" not in (folder / "bookie0.log").read_text()
