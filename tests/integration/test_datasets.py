"""Data sets on real bookies and a real ZooKeeper: drivers at once, killed drivers, collections."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.at_once import run_at_once
from tests.support.cluster import Shell, zookeeper_cluster
from tests.support.fake_data_sets import SCHEMA, Clock, write_ledger
from zbk.client.dataset.loads import TTL_MS
from zbk.cluster.local import LocalCluster
from zbk.protocol.dataset.dataset import MANIFEST_COUNT_MAX
from zbk.system.clock import wall_ms

__all__ = ["zookeeper_cluster"]

DRIVER = """
import sys, threading, zbk
with zbk.connect(sys.argv[1]) as client:
    sets = zbk.DataSets(client)
    ticket = sets.begin(sys.argv[2], who="to be killed")
    with sets.create_ledger(ticket, partition=0, attempt=0) as done:
        done.append(b"closed")
    half = sets.create_ledger(ticket, partition=1, attempt=0, ledger_type="VD_JOURNAL")
    half.append(b"never closed")
    print(ticket.load_id, flush=True)
    threading.Event().wait()
"""


@pytest.fixture
def client(zookeeper_cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(zookeeper_cluster.metadata_uri) as connected:
        yield connected


@pytest.fixture
def other(zookeeper_cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(zookeeper_cluster.metadata_uri) as connected:
        yield connected


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A data set of this test's own."""
    return str(request.node.name)[:100]


def load(sets: zbk.DataSets, name: str, kind: zbk.LoadKind = zbk.LoadKind.APPEND) -> zbk.DataSet:
    """Commit a load of two ledgers of three rows, beside which an attempt has failed."""
    ticket = sets.begin(name, kind, who="me")
    write_ledger(sets, ticket, 1, partition=0, attempt=0)
    ledgers = [write_ledger(sets, ticket, 3, partition=n, attempt=n) for n in (1, 2)]
    return sets.commit(ticket, SCHEMA, ledgers)


def payloads(client: zbk.Client, snapshot: zbk.Snapshot, password: bytes = b"") -> list[bytes]:
    found = []
    for ledger in snapshot.ledgers:
        with client.open_ledger(ledger.ledger_id, password) as reader:
            found += [bytes(one.payload) for one in reader.read(0, ledger.entry_count - 1)]
    return found


def test_a_load_is_read_back_and_its_failed_attempts_are_collected(
    client: zbk.Client, other: zbk.Client, name: str
) -> None:
    sets, others = zbk.DataSets(client), zbk.DataSets(other)

    data_set = load(sets, name)

    snapshot = others.read(name)
    assert payloads(other, snapshot) == [b"0", b"1", b"2"] * 2
    assert snapshot.version == data_set.current
    assert others.collect(name).deleted_count == 1
    assert payloads(other, others.read(name)) == [b"0", b"1", b"2"] * 2
    assert others.drop(name) == 3
    assert name not in sets.list()


def test_whoever_still_writes_an_aborted_load_cannot_close_what_was_deleted(
    client: zbk.Client, other: zbk.Client, name: str
) -> None:
    sets = zbk.DataSets(client)
    ticket = sets.begin(name)
    writer = sets.create_ledger(ticket, partition=0, attempt=0)
    writer.append(b"x")

    assert zbk.DataSets(other).abort(ticket).deleted_count == 1

    with pytest.raises(zbk.NoSuchLedgerError):
        writer.close()
    with pytest.raises(zbk.LoadAbortedError):
        sets.commit(ticket, SCHEMA, [])


def test_what_a_killed_driver_left_goes_with_the_next_load(
    zookeeper_cluster: LocalCluster, client: zbk.Client, name: str
) -> None:
    clock = Clock(wall_ms())
    sets = zbk.DataSets(client, now_ms=clock)
    load(sets, name)
    sets.collect(name)
    before = set(client.list_ledgers())
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, zookeeper_cluster.metadata_uri, name],
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stdout is not None
        load_id = driver.stdout.readline().strip()
        driver.kill()
    assert len(set(client.list_ledgers()) - before) == 2
    assert sets.collect(name).leftover == (), "its time is not over: it may be alive"

    clock.now_ms += TTL_MS + 60_000
    load(sets, name)

    assert load_id not in sets.loads(name)
    found = sets.read(name)
    assert payloads(client, found) == [b"0", b"1", b"2"] * 4
    manifests = {m for version in sets.history(name).versions for m in version.manifests}
    wanted = manifests | {one.ledger_id for one in found.ledgers}
    left = {i for i in set(client.list_ledgers()) - before if i not in wanted}
    assert len(left) == 1, "the failed attempt of the last load, and nothing of the killed driver"


def test_drivers_that_append_at_once_lose_nothing_while_others_collect(
    zookeeper_cluster: LocalCluster, name: str
) -> None:
    """B32: merges of manifests included; whatever a version lists can be read."""
    uri = zookeeper_cluster.metadata_uri
    per_driver = MANIFEST_COUNT_MAX // 2 + 3
    is_over = threading.Event()
    failures: list[BaseException] = []

    def drive() -> None:
        with zbk.connect(uri) as client:
            for _ in range(per_driver):
                load(zbk.DataSets(client), name)

    def tidy() -> None:
        try:
            with zbk.connect(uri) as client:
                sets = zbk.DataSets(client)
                sets.begin(name)  # live all the time
                while not is_over.is_set():
                    sets.collect(name)
        except BaseException as error:  # noqa: BLE001 - compared in the test's own thread
            failures.append(error)

    janitor = threading.Thread(target=tidy, daemon=True)
    janitor.start()
    try:
        run_at_once([drive, drive])
    finally:
        is_over.set()
        janitor.join(30)
    assert failures == []

    with zbk.connect(uri) as client:
        sets = zbk.DataSets(client)
        snapshot = sets.read(name)
        assert len({one.ledger_id for one in snapshot.ledgers}) == 2 * 2 * per_driver
        assert len(payloads(client, snapshot)) == 3 * 2 * 2 * per_driver
        assert len(sets.history(name).versions) == 2 * per_driver
        found = sets.collect(name)
        assert found.live_count == 1
        assert sets.collect(name).leftover == ()


def test_of_overwrites_at_once_one_is_committed_and_the_others_say_why(
    zookeeper_cluster: LocalCluster, client: zbk.Client, name: str
) -> None:
    sets = zbk.DataSets(client)
    load(sets, name)
    refused: list[zbk.DataSetConflictError] = []
    begun = threading.Barrier(3)

    def overwrite() -> None:
        with zbk.connect(zookeeper_cluster.metadata_uri) as own:
            mine = zbk.DataSets(own)
            ticket = mine.begin(name, zbk.LoadKind.OVERWRITE)
            ledgers = [write_ledger(mine, ticket, 5)]
            begun.wait(30)
            try:
                mine.commit(ticket, SCHEMA, ledgers)
            except zbk.DataSetConflictError as error:
                refused.append(error)
                assert mine.abort(ticket).deleted_count == 1

    run_at_once([overwrite] * 3)

    assert len(refused) == 2
    assert sets.read(name).version.row_count == 5
    assert sets.read(name, 1).version.row_count == 6


def test_the_command_line_shows_and_tidies_a_protected_data_set(
    zookeeper_cluster: LocalCluster, client: zbk.Client, name: str, tmp_path: Path
) -> None:
    sets = zbk.DataSets(client, b"secret")
    load(sets, name)
    load(sets, name, zbk.LoadKind.OVERWRITE)
    shell = Shell(tmp_path, {"ZBK_METADATA": zookeeper_cluster.metadata_uri})
    (tmp_path / "password").write_bytes(b"secret\n")
    with_password = ("--password-file", "password")

    assert b"id      long" in shell.run("dataset", "show", name, *with_password).stdout
    shell.run("dataset", "drop", name, "--version", "1", "--yes")
    gc = shell.run("dataset", "gc", name, "-o", "json", *with_password)
    assert json.loads(gc.stdout)["deleted_count"] == 2 + 2 + 1, "failed attempts, version 1"
    assert payloads(client, sets.read(name), b"secret") == [b"0", b"1", b"2"] * 2
    shell.run("dataset", "drop", name, "--yes")
    assert name.encode() not in shell.run("dataset", "ls").stdout
