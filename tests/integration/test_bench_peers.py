"""Small loads on real Redis and NATS servers; skipped where server or client is not installed."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from benchmarks.machine import ROOT
from benchmarks.peers.__main__ import EXIT_INTERRUPTED, NAMES
from benchmarks.peers.servers import find_server
from tests.support.waiting import wait_until

TIMEOUT_S = 60
COUNTS = {"many": "3000", "async": "3000", "sync": "30"}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """A peer that is installed here."""
    found = str(request.param)
    if importlib.util.find_spec(found) is None:
        pytest.skip(f"the client of {found} is not installed (requirements/peers.txt)")
    try:
        find_server(f"{found}-server", None, os.environ.get("PATH"))
    except click.UsageError as error:
        pytest.skip(error.message)
    return found


def command(name: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.peers", name, "-o", "json", *options]


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"TMPDIR": str(folder)}


@pytest.mark.parametrize("api", COUNTS)
def test_a_load_is_written_counted_and_told_and_nothing_is_left(
    name: str, api: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        command(name, "--api", api, "--count", COUNTS[api], "--batch", "400", "--window", "3"),
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["measured"], found["api"]) == (name, api)
    assert found["entry_count"] == int(COUNTS[api])
    assert found["entries_per_s"] > 0
    assert 0 < found["latency_p50_ms"] <= found["latency_p99_ms"] <= found["latency_max_ms"]
    assert found["server_rss_size_max"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--api", "async", "--outstanding", "1", "--ledgers", "5"),
        ("--api", "sync", "--ledgers", "3"),
        ("--api", "sync", "--processes", "3"),
    ],
)
def test_many_streams_are_written_for_a_time_and_nothing_is_left(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    done = subprocess.run(
        command(name, *options, "--seconds", "500ms"),
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["entry_count"] == found["latency_count"] > 0
    assert found["seconds"] >= 0.5
    assert found["client_rss_size"] > 0
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_load_leaves_nothing(name: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        command(name, "--count", "100000000"),
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        wait_until(lambda: len(list(tmp_path.glob("*/*.log"))) == 3, what="three servers")
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=TIMEOUT_S)

    assert running.returncode == EXIT_INTERRUPTED
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
