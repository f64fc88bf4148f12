"""The auditor in real processes, on a real ZooKeeper."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.waiting import wait_until
from zbk.actors.process.bookie_process import init_bookie
from zbk.cluster.child import Child
from zbk.cluster.local import LocalCluster
from zbk.config import BookieConfig
from zbk.metadata.records.election import read_auditor
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore

WAIT_S = 60.0
LEDGER_COUNT = 8


class Processes:
    """Two candidates beside a cluster."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.children: dict[str, Child] = {}
        for number in range(2):
            command = [sys.executable, "-m", "zbk", "autorecovery", "run", "--stop-with-parent"]
            command += ["--metadata", uri, "--brake-hold-ms", "500ms"]
            command += ["--lost-bookie-delay-ms", "0"]
            child = Child(f"autorecovery{number}", command, folder / f"auto{number}.log")
            self.children[str(child.pid)] = child

    def auditor_of(self, store: MetadataStore) -> Child | None:
        """Return the process that audits; named by host and process id."""
        vote = read_auditor(store)
        return None if vote is None else self.children.get(vote.candidate_id.rpartition("-")[2])

    def stop(self) -> None:
        for child in self.children.values():
            child.ask_to_stop()
        for child in self.children.values():
            child.wait_stopped()


@pytest.fixture
def cluster(tmp_path: Path, zookeeper_uri: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "cluster", bookie_count=4, metadata=zookeeper_uri) as cluster:
        yield cluster


def test_when_the_auditor_dies_another_one_takes_over_and_all_ledgers_become_whole(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """B18, B25: closed, fenced ledgers are copied; none names the dead bookie in the end."""
    store = open_store(cluster.metadata_uri)
    processes = Processes(cluster.metadata_uri, tmp_path)
    try:
        with zbk.connect(cluster.metadata_uri) as client:
            ids = []
            for _ in range(LEDGER_COUNT):
                with client.create_ledger() as ledger:
                    ledger.append_many([b"x"] * 20).result(WAIT_S)
                    ids.append(ledger.ledger_id)
            wait_until(lambda: processes.auditor_of(store) is not None, WAIT_S, "an auditor")
            first = processes.auditor_of(store)
            assert first is not None
            victim = cluster.bookies[1].bookie_id

            first.kill()
            cluster.kill(1)

            def is_whole() -> bool:
                found = map(client.get_ledger_metadata, ids)
                return not any(victim in f.bookies for one in found for f in one.fragments)

            wait_until(is_whole, WAIT_S, "every ledger to be whole without the dead bookie")
            second = processes.auditor_of(store)
            assert second is not None
            assert second is not first
            for ledger_id in ids:
                with client.open_ledger(ledger_id) as reader:
                    assert [e.payload for e in reader.read(0, 19)] == [b"x"] * 20
    finally:
        processes.stop()
        store.close()
    assert second.exit_code == 0, "SIGTERM is a clean end"


def test_a_bookie_may_audit_in_its_own_process(tmp_path: Path, zookeeper_uri: str) -> None:
    config = BookieConfig(
        metadata=zookeeper_uri,
        journal_dir=str(tmp_path / "j"),
        ledger_dir=str(tmp_path / "l"),
    )
    bookie_id = init_bookie(config)
    command = [sys.executable, "-m", "zbk", "bookie", "run", "--stop-with-parent", "--autorecovery"]
    command += ["--metadata", zookeeper_uri, "--listen", "tcp://127.0.0.1:*"]
    command += ["--journal-dir", str(tmp_path / "j"), "--ledger-dir", str(tmp_path / "l")]
    bookie = Child("bookie", command, tmp_path / "bookie.log")
    store = open_store(zookeeper_uri)

    def auditor() -> str:
        vote = read_auditor(store)
        return "" if vote is None else vote.candidate_id

    wait_until(lambda: auditor() == bookie_id, WAIT_S, "the bookie to audit")
    bookie.ask_to_stop()
    assert bookie.wait_stopped() == 0
    assert auditor() == "", "it has resigned"
    store.close()
