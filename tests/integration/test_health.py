"""What commands say of the health of a running cluster, and of one that lost a bookie."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
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
