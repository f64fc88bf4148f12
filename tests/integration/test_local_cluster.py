"""A local cluster: started, broken and started again."""

import os
import signal
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import cluster, pause
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.errors import BookieError

__all__ = ["cluster"]


def test_a_restarted_bookie_keeps_its_id_and_its_port(cluster: LocalCluster) -> None:
    before = cluster.bookies[0]

    cluster.kill(0)
    after = cluster.restart(0)

    assert (after.bookie_id, after.address) == (before.bookie_id, before.address)
    assert after.pid != before.pid
    assert after.incarnation > before.incarnation
    assert cluster.deaths() == {}


def test_a_bookie_stops_cleanly_when_it_is_asked(cluster: LocalCluster) -> None:
    assert cluster.terminate(1) == 0
    cluster.restart(1)


def test_a_bookie_that_ends_by_itself_is_told(cluster: LocalCluster) -> None:
    victim = cluster.bookies[2]
    assert cluster.deaths() == {}

    os.kill(victim.pid, signal.SIGKILL)  # behind the cluster's back

    wait_until(lambda: bool(cluster.deaths()))
    text = str(cluster.deaths()[2])
    assert "bookie 2 ended by SIGKILL" in text
    assert victim.bookie_id in text, "its last log lines are shown"
    cluster.restart(2)


def test_a_paused_bookie_holds_up_no_quorum(cluster: LocalCluster) -> None:
    with zbk.connect(cluster.metadata_uri) as client, client.create_ledger() as ledger:
        pause(cluster, 0)
        try:
            assert ledger.append(b"two of three answer", timeout=20) == 0
        finally:
            cluster.resume(0)


def test_a_cluster_is_started_again_on_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with LocalCluster(folder) as first:
        ids = [bookie.bookie_id for bookie in first.bookies]
        with zbk.connect(first.metadata_uri) as client, client.create_ledger() as ledger:
            ledger.append(b"kept")

    with LocalCluster(folder, bookie_count=4) as second:  # one more is welcome
        assert [bookie.bookie_id for bookie in second.bookies][:3] == ids
        with zbk.connect(second.metadata_uri) as client:
            reader = client.open_ledger(ledger.ledger_id)
            assert [bytes(entry.payload) for entry in reader.read(0, 0)] == [b"kept"]


def test_a_bookie_that_does_not_start_is_shown_with_its_own_words(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with LocalCluster(folder):
        threads = NewThreads()
    (folder / "bookie1" / "journal" / "cookie").write_bytes(b"another bookie's")

    with pytest.raises(BookieError) as caught:
        LocalCluster(folder).start()

    assert "bookie 1 ended with exit code" in str(caught.value)
    assert "belong to different bookies" in str(caught.value)
    assert threads.names() == []
