"""Servers of peers: found, started, and gone whatever happens."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from benchmarks.peers.load import PeerFailedError
from benchmarks.peers.servers import (
    Servers,
    find_server,
    parse_version,
    version_of,
    version_text,
)
from tests.support.waiting import wait_until

SLEEP = ["/bin/sleep", "600"]

OWNER = """\
import sys
from benchmarks.peers.servers import Servers
with Servers("test") as servers:
    servers.start("sleeper", ["/bin/sleep", "600"])
    print(servers.pids[0], servers.folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def a_program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_server_is_found_on_the_path(tmp_path: Path) -> None:
    program = a_program(tmp_path / "bin", "some-server", "exit 0")

    assert find_server("some-server", None, str(tmp_path / "bin")) == program


def test_the_server_that_was_given_wins(tmp_path: Path) -> None:
    a_program(tmp_path / "bin", "some-server", "exit 0")
    given = a_program(tmp_path / "mine", "some-server", "exit 0")

    assert find_server("some-server", given, str(tmp_path / "bin")) == given


def test_a_missing_server_is_a_usage_error_that_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="apt-get install no-such-server") as error:
        find_server("no-such-server", None, str(tmp_path))

    assert error.value.exit_code == 2


def test_a_given_server_that_is_no_program_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="no program is there"):
        find_server("some-server", tmp_path, None)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", (7, 0, 15)),
        ("nats-server: v2.10.22", (2, 10, 22)),
    ],
)
def test_versions_are_read(said: str, version: tuple[int, int, int]) -> None:
    assert parse_version("server", said) == version
    assert version_text(version) in said


def test_a_program_that_names_no_version_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="right program"):
        version_of(a_program(tmp_path / "bin", "other", "echo hello"))


def test_servers_and_their_folder_are_gone_after_the_block() -> None:
    with Servers("test") as servers:
        servers.start("one", SLEEP)
        servers.start("two", SLEEP)
        servers.check_running()
        pids, folder = servers.pids, servers.folder
        assert folder.is_dir()

    assert not any(map(is_alive, pids))
    assert not folder.exists()


def test_servers_are_gone_when_the_block_fails() -> None:
    pids: list[int] = []

    def fail() -> None:
        with Servers("test") as servers:
            servers.start("one", SLEEP)
            pids.extend(servers.pids)
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert not any(map(is_alive, pids))


def test_servers_do_not_outlive_an_owner_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert is_alive(int(pid))
        owner.send_signal(signal.SIGKILL)

    wait_until(lambda: not is_alive(int(pid)), what="the end of the server")
    wait_until(lambda: not Path(folder).exists(), what="the end of the folder")


def test_a_server_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = a_program(tmp_path / "bin", "some-server", "echo no such option; exit 3")

    with Servers("test") as servers:
        servers.start("one", [str(program)])
        with pytest.raises(PeerFailedError, match=r"(?s)exit code 3.*no such option"):
            servers.wait_until(lambda: False, "the server")
