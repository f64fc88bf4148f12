"""Operators and autorecovery at the same cluster: who moves what where, and what one sees of it."""

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.lost_bookies import KINDS, Autorecoveries, Ledgers
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import LocalCluster
from zbk.errors import BookieError

COMMAND_TIMEOUT_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "data", bookie_count=5, bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri, request_timeout_ms=1_000) as connected:
        yield connected


@pytest.fixture
def connection(cluster: LocalCluster) -> Iterator[ClusterConnection]:
    with ClusterConnection(cluster.metadata_uri) as opened:
        yield opened


@pytest.fixture
def shell(cluster: LocalCluster, tmp_path: Path) -> Shell:
    return Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri, "TERM": "xterm"})


class WritingThread:
    """Appends to one ledger until the end; it must not fail."""

    def __init__(self, ledger: zbk.LedgerWriter) -> None:
        self.ledger = ledger
        self.entry_count = 0  # acknowledged
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None

    def _run(self) -> None:
        try:
            while not self._is_over.wait(0.005):
                self.ledger.append_many([b"%d" % (self.entry_count + n) for n in range(10)]).result(
                    30
                )
                self.entry_count += 10
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self._failure = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_args: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure


def run_on_a_terminal(shell: Shell, *arguments: str) -> tuple[str, str]:
    """Run a command whose standard error is a terminal; return what it wrote: output, terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "zbk", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=shell.environment,
        cwd=shell.home,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65_536):
                shown += data
        except OSError:  # the other end is closed: it has ended
            os.close(ours)
        assert process.stdout is not None
        output = process.stdout.read().decode()
        assert process.wait(COMMAND_TIMEOUT_S) == 0, shown
    return output, shown.decode()


def test_a_bookie_is_decommissioned_while_a_writer_goes_on(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection, shell: Shell
) -> None:
    """The writer is not fenced; on a terminal one sees how far it is; the bookie never returns."""
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim)
    written = client.create_ledger()
    while victim not in written.metadata.last_fragment.bookies:
        written = client.create_ledger()

    with WritingThread(written) as writing:
        wait_until(lambda: writing.entry_count > 0)
        cluster.kill(0)
        wait_until(lambda: victim not in connection.registered(), what="the registration to go")
        output, shown = run_on_a_terminal(shell, "bookie", "decommission", victim)
        count_then = writing.entry_count
        wait_until(lambda: writing.entry_count > count_then, what="the writer to go on")

    assert output.count("moved") == len(ledgers.contents) + 1
    assert f"moving from {victim}" in shown
    assert "MB/s" in shown
    assert f"bookie {victim} is out of service" in shown
    ledgers.check_whole_without(victim)
    assert written.close() == writing.entry_count - 1
    with client.open_ledger(written.ledger_id) as reader:
        found = [int(entry.payload) for entry in reader.read(0, writing.entry_count - 1)]
        assert found == list(range(writing.entry_count))
        named = {b for fragment in reader.metadata.fragments for b in fragment.bookies}
    assert victim not in named
    with pytest.raises(BookieError, match="cookie"):
        cluster.restart(0)


def test_a_worker_fills_its_own_bookie_and_an_operator_moves_the_rest(
    cluster: LocalCluster,
    client: zbk.Client,
    connection: ClusterConnection,
    shell: Shell,
    tmp_path: Path,
) -> None:
    """As in the autorecovery page; what the local bookie has already is left to others, or us."""
    victim, local, other, third, to = (bookie.bookie_id for bookie in cluster.bookies)
    with_local = Ledgers(client, victim, local, other, kinds=KINDS[:1])
    without = Ledgers(client, victim, other, third, kinds=KINDS[:1])
    (with_id,) = with_local.contents
    cluster.terminate(0)

    with Autorecoveries(cluster.metadata_uri, tmp_path) as processes:
        processes.start(target_policy="local", local_bookie_id=local, repair_retry_ms_max="1s")
        wait_until(lambda: local in without.named(), 30, "the local bookie to be filled")
        wait_until(lambda: list(connection.tasks.list()) == [with_id], what="one task to be left")
        moved = shell.run(
            "bookie", "recover", victim, "--to", to, "--ledger", str(with_id), "-o", "json"
        )
        wait_until(lambda: not list(connection.tasks.list()), 30, "the task to be found done")

    assert json.loads(moved.stdout)["outcome"] == "moved"
    assert moved.stderr == b"", "no bar, but where somebody looks"
    assert with_local.named() == {to, local, other}
    assert without.named() == {local, other, third}
    with_local.check_whole_without(victim)
    without.check_whole_without(victim)
    assert " WARNING zbk.auditor: ledger" not in processes.log()
