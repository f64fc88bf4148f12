"""``zbk up --secure``: the whole setup on one machine with one command."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def ready(shell: Shell) -> Iterator[dict[str, Any]]:
    running = shell.start("up", "--secure", "--data", "cluster", "-o", "json")
    assert running.stdout is not None
    line = running.stdout.readline()
    assert line, running.communicate()[1].decode()
    yield json.loads(line)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)


def with_key(shell: Shell, ready: dict[str, Any]) -> Shell:
    return Shell(shell.home, {"ZBK_KEY": ready["key"], "ZBK_METADATA": ready["metadata"]})


def test_a_client_with_the_printed_key_works(shell: Shell, ready: dict[str, Any]) -> None:
    user = with_key(shell, ready)
    done = user.run("ledger", "append", "-", "-o", "json", stdin=b"one\n")
    ledger_id = json.loads(done.stdout)["ledger_id"]

    assert user.run("ledger", "cat", str(ledger_id)).stdout == b"one"
    assert user.run("status", exit_code=0).stdout


def test_every_part_has_a_key_of_its_own(shell: Shell, ready: dict[str, Any]) -> None:
    listed = with_key(shell, ready).run("principal", "ls", "-o", "json").stdout.splitlines()
    principals = {row["name"]: row["roles"] for row in map(json.loads, listed)}
    folder = Path(ready["key"]).parent

    assert principals == {
        "bookie": ["bookie"],
        "autorecovery": ["bookie"],
        "console": ["auditor"],
        "client": ["operator"],
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.key")} == {0o600}


def test_a_client_without_the_key_is_told_what_to_do(shell: Shell, ready: dict[str, Any]) -> None:
    stranger = Shell(shell.home, {"ZBK_METADATA": ready["metadata"]})

    done = stranger.run("bookie", "show", ready["bookies"][0]["bookie_id"], exit_code=3)

    assert b"--key" in done.stderr


def test_autorecovery_runs_with_its_key(shell: Shell, ready: dict[str, Any]) -> None:
    assert with_key(shell, ready).run("autorecovery", "whoisauditor").stdout.strip()
    log = (Path(ready["data_dir"]) / "autorecovery.log").read_text()
    assert "ERROR" not in log
