"""A symbolic link in a data directory of a bookie: it does not start, and follows no link."""

from pathlib import Path

import pytest

from tests.support.cluster import Shell
from zbk.errors import EXIT_CALLER

DIRECTORIES = ("--journal-dir", "b/journal", "--ledger-dir", "b/ledgers")


@pytest.fixture(scope="module")
def bookie(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A bookie that has been made, in ``b``, and does not run."""
    home = tmp_path_factory.mktemp("home")
    shell = Shell(home, {"ZBK_METADATA": f"sqlite://{home}/metadata.db"})
    shell.run("bookie", "init", *DIRECTORIES)
    return shell


def names_below(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))


@pytest.mark.parametrize(
    "name",
    [
        "b/journal/journal-0000000000000001",
        "b/journal/other",
        "b/ledgers/logs/0000000000000001.log",
        "b/ledgers/deeper/link",
        "b/ledgers/dangling",
    ],
)
def test_a_start_is_refused(bookie: Shell, tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    if "dangling" not in name:
        target.mkdir()
        (target / "kept").write_bytes(b"kept")
    link = bookie.home / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    try:
        before = names_below(bookie.home)
        done = bookie.run("bookie", "run", *DIRECTORIES, "--http", "off", exit_code=EXIT_CALLER)
        assert f"{name} is a symbolic link" in done.stderr.decode()
        assert "Traceback" not in done.stderr.decode()
        assert names_below(bookie.home) == before
        if target.exists():
            assert names_below(target) == ["kept"]
    finally:
        link.unlink()


def test_the_directory_of_a_cookie_that_became_a_link_is_refused(bookie: Shell) -> None:
    """Files that a start reads first are checked before they are read."""
    cookie = next((bookie.home / "b/journal").glob("*"))
    moved = cookie.with_name("moved")
    cookie.rename(moved)
    cookie.symlink_to(moved)
    try:
        done = bookie.run("bookie", "run", *DIRECTORIES, "--http", "off", exit_code=EXIT_CALLER)
        assert "is a symbolic link" in done.stderr.decode()
    finally:
        cookie.unlink()
        moved.rename(cookie)


def test_the_data_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    """Operators put a directory on another disk in this way."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "journal").symlink_to(tmp_path / "disk")
    shell = Shell(tmp_path, {"ZBK_METADATA": f"sqlite://{tmp_path}/metadata.db"})
    shell.run("bookie", "init", *DIRECTORIES)
    with shell.start(
        "bookie", "run", *DIRECTORIES, "--listen", "tcp://127.0.0.1:0", "--http", "off"
    ) as process:
        assert process.stderr is not None
        lines = (line.decode() for line in iter(process.stderr.readline, b""))
        assert any("READY" in line for line in lines)
        process.terminate()
        process.stderr.read()
        assert process.wait(60) == 0
