"""What commands say of the health of a running cluster, and of one that lost a bookie."""

import base64
import json
import os
import pty
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, Shell, lone_ledger
from tests.support.waiting import wait_until
from zbk.cli.health.debug import PARTS
from zbk.cluster.local import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("health") / "data"
    with LocalCluster(folder, bookie_options=QUICK) as running:
        running.start_autorecovery()
        yield running


@pytest.fixture
def shell(cluster: LocalCluster, tmp_path: Path) -> Shell:
    return Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})


def look(shell: Shell) -> bytes:
    """Return what the command prints, whatever its exit code."""
    process = shell.start("status")
    return process.communicate()[0]


def kinds(shell: Shell, exit_code: int) -> list[str]:
    done = shell.run("status", "-o", "json", exit_code=exit_code)
    return [one["kind"] for one in json.loads(done.stdout)["findings"] if one["is_problem"]]


def test_a_running_cluster_is_healthy_and_one_without_a_bookie_is_not(
    shell: Shell, cluster: LocalCluster
) -> None:
    wait_until(lambda: b"auditor -" not in look(shell), 30)
    assert kinds(shell, 0) == []
    assert b"healthy" in shell.run("status").stdout

    cluster.kill(0)
    wait_until(lambda: b"2 of 3 registered" in shell.run("status", exit_code=10).stdout, 30)

    assert set(kinds(shell, 10)) >= {"bookies-missing", "too-few-bookies"}


def test_a_bundle_has_no_secret(shell: Shell, cluster: LocalCluster) -> None:
    canary = "c4n4ry-S3cret"
    with zbk.connect(cluster.metadata_uri) as client:
        with client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, digest_type="MAC",
            password=canary.encode(), custom_metadata={"job": canary.encode()},
        ) as ledger:  # fmt: skip
            ledger.append(f"payload {canary}".encode())
        metadata = client.get_ledger_metadata(ledger.ledger_id)
    log = shell.home / "bookie.log"
    log.write_text(f"INFO fine\npassword={canary}\nan accident: other-{canary[:4]}-password\n")
    shell.environment["ZBK_PASSWORD"] = canary
    shell.environment["SOME_TOKEN"] = f"other-{canary[:4]}-password"

    done = shell.run("debug", "bundle", "b.tgz", "--log", "bookie.log", "-o", "json")

    path = shell.home / "b.tgz"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(done.stdout)["file"] == "b.tgz"
    with tarfile.open(path) as archive:
        found = {one.name.removeprefix("zbk-debug/"): archive.extractfile(one) for one in archive}
        texts = {name: file.read() for name, file in found.items() if file is not None}
    assert texts.keys() >= {*PARTS, "index.txt", "logs/00-bookie.log"}
    assert json.loads(texts["status.json"])["metadata"] == cluster.metadata_uri
    assert b"INFO fine" in texts["logs/00-bookie.log"]
    assert b"default" in texts["config.txt"]
    everything = b"\n".join(texts.values())
    keys = (metadata.ledger_key, metadata.password_digest)
    forms = [form for key in keys for form in (key, key.hex().encode(), base64.b64encode(key))]
    for secret in (canary.encode(), canary[:4].encode(), base64.b64encode(canary.encode()), *forms):
        assert secret not in everything

    again = shell.run("debug", "bundle", "b.tgz", exit_code=1)
    assert b"File exists" in again.stderr


def test_top_shows_the_rates_of_each_bookie(shell: Shell, cluster: LocalCluster) -> None:
    with zbk.connect(cluster.metadata_uri) as client, lone_ledger(client) as ledger:
        process = shell.start("top", "-o", "json", "--interval", "500ms")
        assert process.stdout is not None
        seen: list[dict[str, float]] = []
        while not any(one["adds_per_s"] and one["fsyncs_per_s"] for one in seen):
            ledger.append(b"x")
            seen.append(json.loads(process.stdout.readline())["total"])
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)

    assert (process.returncode, errors) == (0, b"")
    view = shell.run("top", "--once", "--interval", "100ms").stdout.decode()
    assert "ADDS/S" in view
    assert "\x1b" not in view


def test_top_gives_the_terminal_back(shell: Shell) -> None:
    reading, writing = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "zbk", "top", "--interval", "200ms"],
        stdin=writing, stdout=writing, stderr=writing, env=shell.environment | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(writing)
    shown = b""
    while shown.count(b"\x1b[H") < 2:
        shown += os.read(reading, 4_096)
    process.terminate()
    with suppress(OSError):  # the other end is closed
        while part := os.read(reading, 4_096):
            shown += part
    os.close(reading)

    assert process.wait(30) == 0
    assert shown.startswith(b"\x1b[?1049h")
    assert shown.endswith(b"\x1b[?25h\x1b[?1049l")
    assert b"ADDS/S" in shown
