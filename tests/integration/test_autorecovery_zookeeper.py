"""Autorecovery and a ZooKeeper that hangs for longer than every session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK
from tests.support.lost_bookies import (
    ALL_ACKNOWLEDGE,
    BIG_COUNT,
    KINDS,
    WHOLE_S,
    Autorecoveries,
    Ledgers,
    Watched,
)
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.system.clock import monotonic_s

PAUSE_S = 4.5
"""Over twice as long as the sessions of bookies and autorecovery."""


@pytest.fixture
def cluster(tmp_path: Path, zookeeper_uri: str) -> Iterator[LocalCluster]:
    folder = tmp_path / "data"
    with LocalCluster(
        folder, bookie_count=4, metadata=zookeeper_uri, bookie_options=QUICK
    ) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(
        cluster.metadata_uri, request_timeout_ms=1_000, session_timeout_ms=30_000
    ) as connected:
        yield connected


@pytest.fixture
def connection(cluster: LocalCluster) -> Iterator[ClusterConnection]:
    with ClusterConnection(cluster.metadata_uri) as opened:
        yield opened


@pytest.fixture
def processes(cluster: LocalCluster, tmp_path: Path) -> Iterator[Autorecoveries]:
    with Autorecoveries(cluster.metadata_uri, tmp_path) as started:
        yield started


def pause(server: LocalZooKeeper) -> None:
    """Stop the server for longer than the sessions last."""
    until_s = monotonic_s() + PAUSE_S
    server.pause()
    try:
        wait_until(lambda: monotonic_s() > until_s)
    finally:
        server.resume()


def registration_count(cluster: LocalCluster) -> int:
    """Count how often bookies have registered since they were started."""
    logs = [cluster.folder / f"bookie{b.index}.log" for b in cluster.bookies]
    return sum(log.read_text("utf-8").count("registration: REGISTERED") for log in logs)


def test_when_every_registration_vanishes_no_ledger_is_reported(
    cluster: LocalCluster,
    client: zbk.Client,
    connection: ClusterConnection,
    processes: Autorecoveries,
    zookeeper_server: LocalZooKeeper,
) -> None:
    """F20: it is rather we who see nothing; a bookie that is lost afterwards is repaired."""
    watched = Watched(connection)
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim, kinds=[KINDS[0], KINDS[2]])
    processes.start(brake_hold_ms="3s")
    watched.wait_ready()
    assert registration_count(cluster) == 4

    pause(zookeeper_server)

    wait_until(lambda: registration_count(cluster) == 8, 30, "every bookie to register anew")
    wait_until(lambda: processes.log().count("looked again; lost: none") == 2, 30, "the brake")
    assert "begins" not in processes.log()
    assert "ERROR" not in processes.log()
    assert not list(watched.tasks.list())
    assert len(connection.registered()) == 4

    cluster.terminate(0)
    wait_until(lambda: victim not in ledgers.named(), WHOLE_S, "a true loss to be repaired")
    watched.wait_whole()
    ledgers.check_whole_without(victim)


def test_a_worker_that_has_lost_its_session_drops_what_it_does_and_begins_anew(
    cluster: LocalCluster,
    client: zbk.Client,
    connection: ClusterConnection,
    processes: Autorecoveries,
    zookeeper_server: LocalZooKeeper,
) -> None:
    """F19: its lock went with the session; whoever has it then does the work."""
    watched = Watched(connection)
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim, kinds=[ALL_ACKNOWLEDGE], entry_count=BIG_COUNT)
    (ledger_id,) = ledgers.contents
    processes.start(replication_rate_size="200KiB", brake_hold_ms="2s")
    watched.wait_ready()
    cluster.terminate(0)
    watched.wait_halfway(ledger_id)

    pause(zookeeper_server)

    assert victim in ledgers.named(), "what was copied is not in the metadata"
    wait_until(lambda: victim not in ledgers.named(), WHOLE_S, "another attempt")
    watched.wait_whole()
    ledgers.check_whole_without(victim)
    assert "1 repairs are dropped" in processes.log()
    wait_until(lambda: processes.log().count(f"ledger {ledger_id} is whole") == 1)
