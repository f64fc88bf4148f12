"""Repair on real bookies: one dies for good; the worker, and operators, move its ledgers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.lost_bookies import KINDS, Ledgers
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.worker import ReplicationWorker
from zbk.cluster.local import LocalCluster
from zbk.config import AutorecoveryConfig
from zbk.metadata.records.underreplication import MissingReason
from zbk.protocol.entry.words import LedgerState


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Five bookies: one to lose, and one to spare."""
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


def kill_for_good(cluster: LocalCluster, connection: ClusterConnection, index: int) -> str:
    """Kill a bookie; return its id once everybody knows."""
    bookie_id = cluster.bookies[index].bookie_id
    cluster.kill(index)
    wait_until(lambda: bookie_id not in connection.registered(), what="the registration to go")
    return bookie_id


class Worker:
    """A worker in this process; it must not fail."""

    def __init__(self, connection: ClusterConnection, **options: object) -> None:
        self.failures: list[BaseException] = []
        self._connection = connection
        config = AutorecoveryConfig(**options)  # type: ignore[arg-type]
        self.worker = ReplicationWorker(connection, "worker", config, self.failures.append)

    def __enter__(self) -> Self:
        self.worker.start()
        return self

    def make_whole(self, ledgers: Ledgers, victim: str) -> None:
        """Report all ledgers, and wait until the worker has done with them."""
        tasks = self._connection.tasks
        for ledger_id in ledgers.contents:
            tasks.report(ledger_id, [victim], MissingReason.BY_HAND)
        wait_until(lambda: not list(tasks.list()), 60, what="the tasks to be done")
        wait_until(lambda: not tasks.locked_ids(), what="the locks to be given back")

    def __exit__(self, *_args: object) -> None:
        self.worker.stop()
        assert not self.failures


def test_a_worker_makes_every_ledger_whole_on_the_bookies_that_are_left(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection
) -> None:
    """B18: the ledgers are closed and fenced; copies of every kind are taken all the same."""
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim)
    kill_for_good(cluster, connection, 0)

    with Worker(connection) as worker:
        worker.make_whole(ledgers, victim)

    ledgers.check_whole_without(victim)
    assert not list(connection.tasks.list_unrepairable())


def test_a_ledger_of_one_replica_is_reported_once_and_left_alone(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection
) -> None:
    """B41: the report says which entries are lost; no lock is kept, nothing is tried for ever."""
    ledger = client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
    ledger.append_many([b"x"] * 10).result(30)
    ledger.close()
    (name,) = ledger.metadata.last_fragment.bookies
    index = next(b.index for b in cluster.bookies if b.bookie_id == name)
    kill_for_good(cluster, connection, index)

    with Worker(connection, repair_retry_ms_max=16):
        connection.tasks.report(ledger.ledger_id, [name], MissingReason.LOST)
        wait_until(lambda: list(connection.tasks.list_unrepairable()) == [ledger.ledger_id])
        wait_until(lambda: not connection.tasks.locked_ids())

    task = connection.tasks.read_unrepairable(ledger.ledger_id)
    assert task is not None
    assert "10 entries, 0 .. 9" in task.unrepairable
    assert client.get_ledger_metadata(ledger.ledger_id).last_fragment.bookies == (name,)


def test_a_writer_that_moves_on_in_time_is_not_fenced(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection
) -> None:
    """I26: only what the lost bookie held before is copied; the writer never notices."""
    ledger = client.create_ledger()
    ledger.append_many([b"before"] * 100).result(30)
    name = ledger.metadata.last_fragment.bookies[0]
    index = next(b.index for b in cluster.bookies if b.bookie_id == name)

    with Worker(connection, open_ledger_grace_ms=5_000):
        kill_for_good(cluster, connection, index)
        connection.tasks.report(ledger.ledger_id, [name], MissingReason.LOST)
        for _ in range(20):
            ledger.append_many([b"after"] * 10).result(30)
        wait_until(lambda: not list(connection.tasks.list()), 60, what="the task to be done")
        ledger.append(b"last")
        ledger.close()

    metadata = client.get_ledger_metadata(ledger.ledger_id)
    assert name not in {b for fragment in metadata.fragments for b in fragment.bookies}
    with client.open_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == 300


def test_the_ledger_of_a_dead_writer_is_closed_after_the_grace_period_and_copied(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection
) -> None:
    with zbk.connect(cluster.metadata_uri) as other:
        ledger = other.create_ledger()
        ledger.append_many([b"entry"] * 100).result(30)
    name = ledger.metadata.last_fragment.bookies[0]
    index = next(b.index for b in cluster.bookies if b.bookie_id == name)
    kill_for_good(cluster, connection, index)

    with Worker(connection, open_ledger_grace_ms=300):
        connection.tasks.report(ledger.ledger_id, [name], MissingReason.LOST)
        wait_until(lambda: not list(connection.tasks.list()), 60, what="the task to be done")

    metadata = client.get_ledger_metadata(ledger.ledger_id)
    assert metadata.state is LedgerState.CLOSED
    assert name not in metadata.last_fragment.bookies
    with client.open_ledger(ledger.ledger_id) as reader:
        assert [e.payload for e in reader.read(0, 99)] == [b"entry"] * 100


def test_a_task_that_was_reported_again_meanwhile_stays(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection
) -> None:
    """B42: two bookies are lost, one after the other, while the worker is at the ledger."""
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim)
    ledger_id = next(iter(ledgers.contents))
    other = next(
        b for b in client.get_ledger_metadata(ledger_id).last_fragment.bookies if b != victim
    )
    kill_for_good(cluster, connection, 0)

    with Worker(connection, replication_rate_size=1_000):
        connection.tasks.report(ledger_id, [victim], MissingReason.LOST)
        wait_until(lambda: ledger_id in connection.tasks.locked_ids(), what="the worker")
        connection.tasks.report(ledger_id, [other], MissingReason.CHECKED)
        found = connection.tasks.read(ledger_id)
        assert found is not None
        assert set(found[0].missing) == {victim, other}
    assert connection.tasks.read(ledger_id) is not None  # stopped in the middle: the task is there
    assert not connection.tasks.locked_ids()

    with Worker(connection):
        wait_until(lambda: not list(connection.tasks.list()), 60, what="the task to be done")
    named = client.get_ledger_metadata(ledger_id).last_fragment.bookies
    assert victim not in named


def test_by_hand_a_bookie_is_emptied_and_taken_out_of_service(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection, tmp_path: Path
) -> None:
    """B21, B34: the locks of the workers are taken; an empty last fragment holds nobody up."""
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim)
    empty = None
    while empty is None or victim not in empty.metadata.last_fragment.bookies:
        empty = client.create_ledger()
        empty.close()

    refused = shell.run("bookie", "decommission", victim, exit_code=3)
    assert b"it is running" in refused.stderr

    plan = shell.run("bookie", "recover", victim, "--dry-run", "-o", "json").stdout
    planned = {row["ledger_id"]: row["entries"] for row in map(json.loads, plan.splitlines())}
    assert {*ledgers.contents, empty.ledger_id} <= planned.keys()
    assert planned[empty.ledger_id] == 0
    first = next(iter(ledgers.contents))
    assert victim in client.get_ledger_metadata(first).last_fragment.bookies

    one = shell.run("bookie", "recover", victim, "--ledger", str(first), "-o", "json").stdout
    assert json.loads(one)["outcome"] == "moved"
    assert victim not in client.get_ledger_metadata(first).last_fragment.bookies

    kill_for_good(cluster, connection, 0)
    connection.tasks.lock(first, "somebody")  # at another ledger: nobody waits for it
    done = shell.run("bookie", "decommission", victim, "-o", "json")

    moved = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["outcome"] for row in moved} == {"moved"}
    ledgers.check_whole_without(victim)
    assert connection.registry.read_cookie(victim) is None


def test_a_bookie_that_is_lost_for_good_is_forced_out_after_its_losses_are_stated(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection, tmp_path: Path
) -> None:
    """Only entries without another replica are given up; the statement names each."""
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim, kinds=KINDS[:2], entry_count=200)
    alone = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}
    (sole,) = Ledgers(client, victim, kinds=[alone], entry_count=10).contents
    kill_for_good(cluster, connection, 0)
    command = ("bookie", "decommission", victim)

    assert b"ledgers still name it" in shell.run(*command, exit_code=3).stderr
    assert b"--yes" in shell.run(*command, "--force", exit_code=2).stderr
    assert victim in client.get_ledger_metadata(sole).last_fragment.bookies
    done = shell.run(*command, "--force", "--yes", "-o", "json")

    stated = [row for row in map(json.loads, done.stdout.splitlines()) if "outcome" not in row]
    assert stated == [
        {
            "ledger_id": sole,
            "first_entry_id": 0,
            "last_entry_id": 9,
            "entries": 10,
            "why": "no bookie has a replica",
        }
    ]
    assert b"10 entries of 1 ledgers are given up" in done.stderr
    assert connection.registry.read_cookie(victim) is None
    ledgers.check_whole_without(victim)
    with client.open_ledger(sole) as reader:
        assert reader.last_add_confirmed == 9
        with pytest.raises(zbk.ZbkError):
            list(reader.read(0, 9))


def test_a_ledger_that_a_worker_has_locked_is_waited_for(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection, tmp_path: Path
) -> None:
    """B34: nobody changes a ledger under the feet of whoever has its lock."""
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    victim = cluster.bookies[0].bookie_id
    ledgers = Ledgers(client, victim)
    kill_for_good(cluster, connection, 0)
    locked = next(iter(ledgers.contents))
    connection.tasks.lock(locked, "a worker")

    with shell.start("bookie", "recover", victim, "-o", "json") as process:
        assert process.stdout is not None
        others = [json.loads(process.stdout.readline()) for _ in range(len(ledgers.contents) - 1)]
        assert locked not in {row["ledger_id"] for row in others}
        connection.tasks.unlock(locked)
        last, _said = process.communicate(timeout=60)

    assert process.returncode == 0
    assert json.loads(last)["ledger_id"] == locked
    ledgers.check_whole_without(victim)


def test_what_is_to_be_repaired_is_listed_and_a_ledger_can_be_checked(
    cluster: LocalCluster, client: zbk.Client, connection: ClusterConnection, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    with client.create_ledger() as ledger:
        ledger.append_many([b"x"] * 10).result(30)
    ledger_id = ledger.ledger_id
    name = ledger.metadata.last_fragment.bookies[0]

    whole = shell.run("ledger", "check", str(ledger_id), "--full", "-o", "json").stdout
    assert json.loads(whole)["is_whole"] is True

    connection.tasks.report(ledger_id, [name], MissingReason.BY_HAND)
    (row,) = shell.run("ledger", "underreplicated", "-o", "json").stdout.splitlines()
    shown = json.loads(row)
    assert (shown["ledger_id"], shown["state"], shown["bookies"]) == (ledger_id, "waiting", name)

    with Worker(connection):
        watched = shell.run("ledger", "underreplicated", "--watch", "-o", "json").stdout
    last = json.loads(watched.splitlines()[-1])
    assert (last["waiting"], last["working"], last["unrepairable"]) == (0, 0, 0)

    index = next(b.index for b in cluster.bookies if b.bookie_id == name)
    kill_for_good(cluster, connection, index)
    gone = shell.run("ledger", "check", str(ledger_id), "-o", "json", exit_code=3)
    assert json.loads(gone.stdout)["undecided"] == [name]
    assert f"did not answer and may lack entries: {name}" in gone.stderr.decode()


def test_a_full_check_whose_bookies_are_all_gone_does_not_end_well(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    with client.create_ledger() as ledger:
        ledger.append_many([b"x"] * 10).result(30)
    for bookie in cluster.bookies:
        cluster.kill(bookie.index)
    try:
        checked = shell.run(
            "ledger", "check", str(ledger.ledger_id), "--full", "-o", "json", exit_code=3
        )
    finally:
        for bookie in cluster.bookies:
            cluster.restart(bookie.index)
    shown = json.loads(checked.stdout)
    assert (shown["is_whole"], len(shown["undecided"])) == (False, 3)


def test_nobody_sees_the_key_of_a_ledger(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    ledger_id = client.reserve_ledger(password=b"secret")
    key = client.get_ledger_metadata(ledger_id).ledger_key

    assert len(key) == 16
    for output in ("json", "table"):
        shown = shell.run("ledger", "show", str(ledger_id), "-o", output).stdout
        assert b"ledger_key" not in shown
        assert b"ledger key" not in shown
