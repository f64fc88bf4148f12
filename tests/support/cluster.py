"""Real clusters for tests: bookies as processes, and ``zbk`` as a command.

A test module that wants a fixture of these imports it by name.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import zbk
from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

COMMAND_TIMEOUT_S = patient_s(60.0)

QUICK = {"session_timeout_ms": 2_000}
"""A killed bookie is not registered for long, so its restart does not take long."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three bookies on SQLite metadata, shared by the tests of one module."""
    folder = tmp_path_factory.mktemp("cluster") / "data"
    with LocalCluster(folder, bookie_options=QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def zookeeper_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three bookies on a real ZooKeeper, shared by the tests of one module."""
    folder = tmp_path_factory.mktemp("zookeeper-cluster") / "data"
    with LocalCluster(folder, use_zookeeper=True, bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    """A client of ``cluster``."""
    with zbk.connect(cluster.metadata_uri) as connected:
        yield connected


def payloads_of(reader: zbk.LedgerReader) -> list[bytes]:
    """Return the payloads of all entries that are confirmed to a reader."""
    return [bytes(entry.payload) for entry in reader.read(0, reader.last_add_confirmed)]


def lone_ledger(
    client: zbk.Client, grants: Mapping[str, Sequence[str]] | None = None
) -> zbk.LedgerWriter:
    """Create a ledger on one bookie."""
    return client.create_ledger(
        ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, grants=grants
    )


def pause(cluster: LocalCluster, index: int) -> None:
    """Pause a bookie and return once it is silent: a thread that still runs may answer."""
    cluster.pause(index)
    pid = cluster.bookies[index].pid
    wait_until(lambda: _are_threads_stopped(pid), what=f"the pause of process {pid}")


def _are_threads_stopped(pid: int) -> bool:
    statuses = Path(f"/proc/{pid}/task").glob("*/stat")
    return {one.read_text().rpartition(")")[2].split()[0] for one in statuses} == {"T"}


class Shell:
    """Runs ``zbk`` as a user would: as a process, with a home of its own."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.home = home
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ZBK_", "XDG_"))}
        self.environment = inherited | {"HOME": str(home)} | dict(environment or {})

    def start(
        self, *arguments: str, has_session: bool = False, umask: int = -1
    ) -> subprocess.Popen[bytes]:
        """Start a command; whoever calls waits for it. ``has_session``: as in its own terminal."""
        return subprocess.Popen(
            [sys.executable, "-m", "zbk", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=self.home,
            start_new_session=has_session,
            umask=umask,
        )

    def run(
        self, *arguments: str, stdin: bytes = b"", exit_code: int = 0, module: str = "zbk"
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command to its end, which must have this exit code."""
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.home,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == exit_code, (arguments, done.stdout, done.stderr)
        return done
