"""Recovery on real bookies: the writer dies, or lives and is stopped; bookies die, too."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, Shell, pause
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.protocol.entry.words import LedgerState

ENTRY = b"%08d" + b"." * 92

WRITER = """
import sys, zbk
with zbk.connect(sys.argv[1]) as client:
    ledger = client.create_ledger(ledger_type=sys.argv[2])
    print(ledger.ledger_id, flush=True)
    number = 0
    pending = []
    while True:
        entries = [b"%08d" % n + b"." * 92 for n in range(number, number + 100)]
        number += 100
        pending.append(ledger.append_many(entries))
        if len(pending) > 9:
            print(pending.pop(0).result(30).stop, flush=True)
"""
"""Keeps a thousand adds outstanding; prints its ledger's id, then how many are acknowledged."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Four bookies, shared by the tests of this module."""
    folder = tmp_path_factory.mktemp("recovery") / "data"
    with LocalCluster(folder, bookie_count=4, bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with connect(cluster) as connected:
        yield connected


@pytest.fixture
def other(cluster: LocalCluster) -> Iterator[zbk.Client]:
    """The client of whoever recovers."""
    with connect(cluster) as connected:
        yield connected


def connect(cluster: LocalCluster) -> zbk.Client:
    return zbk.connect(cluster.metadata_uri, request_timeout_ms=1_000, quorum_grace_ms=2_000)


def payloads(reader: zbk.LedgerReader) -> list[bytes]:
    return [bytes(entry.payload) for entry in reader.read(0, reader.last_add_confirmed)]


class KilledWriter:
    """A writer in a process of its own, killed in the middle of its adds."""

    def __init__(self, cluster: LocalCluster, ledger_type: zbk.LedgerType) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, cluster.metadata_uri, ledger_type],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        self.ledger_id = int(process.stdout.readline())
        self.acked_count = 0
        while self.acked_count < 5_000:
            self.acked_count = int(process.stdout.readline())
        process.kill()
        for line in process.stdout.read().split("\n")[:-1]:  # the last one may be cut
            self.acked_count = int(line)
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("ledger_type", list(zbk.LedgerType))
def test_a_ledger_whose_writer_was_killed_has_everything_that_was_acknowledged(
    client: zbk.Client, cluster: LocalCluster, ledger_type: zbk.LedgerType
) -> None:
    writer = KilledWriter(cluster, ledger_type)

    with client.recover_ledger(writer.ledger_id) as reader:
        found = payloads(reader)

    assert len(found) >= writer.acked_count
    assert found == [ENTRY % n for n in range(len(found))]
    metadata = client.get_ledger_metadata(writer.ledger_id)
    assert metadata.is_closed
    assert metadata.length == 100 * len(found)


@pytest.mark.parametrize("ledger_type", list(zbk.LedgerType))
def test_a_writer_that_lives_is_fenced(
    client: zbk.Client, other: zbk.Client, ledger_type: zbk.LedgerType
) -> None:
    """B15: its next add fails with an unknown outcome, and so does its close."""
    ledger = client.create_ledger(ledger_type=ledger_type)
    for number in range(100):
        ledger.append(ENTRY % number)

    with other.recover_ledger(ledger.ledger_id) as reader:
        assert payloads(reader) == [ENTRY % n for n in range(100)]

    with pytest.raises(zbk.LedgerFencedError) as failed:
        ledger.append(b"too late")
    assert failed.value.outcome == "unknown"
    with pytest.raises((zbk.LedgerFencedError, zbk.LedgerClosedError)):
        ledger.close()
    with other.open_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == 99


def test_many_recoverers_at_once_see_one_end(client: zbk.Client, other: zbk.Client) -> None:
    """I15: all that succeed agree, and what they agree on has everything acknowledged."""
    ledger = client.create_ledger()
    acked: list[int] = []

    def write() -> None:
        with suppress(zbk.ZbkError):
            while True:
                acked.append(ledger.append_many([b"x" * 100] * 10).result(30).stop)

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: len(acked) > 20, what="the writer")
    ends: list[tuple[int, int | None]] = []
    errors: list[zbk.ZbkError] = []

    def recover(with_client: zbk.Client) -> None:
        try:
            with with_client.recover_ledger(ledger.ledger_id) as reader:
                ends.append((reader.last_add_confirmed, reader.metadata.length))
        except zbk.ZbkError as error:
            errors.append(error)

    threads = [threading.Thread(target=recover, args=(c,)) for c in (client, other) * 2]
    for thread in threads:
        thread.start()
    for thread in (*threads, writer):
        thread.join(60)

    assert not errors
    assert len(ends) == 4
    assert len(set(ends)) == 1
    last, length = ends[0]
    assert last >= max(acked) - 1
    assert length == 100 * (last + 1)


def test_a_dead_bookie_does_not_stop_a_recovery(
    client: zbk.Client, other: zbk.Client, cluster: LocalCluster
) -> None:
    """B7: one of three bookies is dead, and nothing is lost."""
    ledger = client.create_ledger()
    ledger.append_many([ENTRY % n for n in range(1_000)]).result(30)
    dead = next(
        b for b in cluster.bookies if b.bookie_id == ledger.metadata.last_fragment.bookies[0]
    )
    cluster.kill(dead.index)
    try:
        with other.recover_ledger(ledger.ledger_id) as reader:
            assert payloads(reader) == [ENTRY % n for n in range(1_000)]
    finally:
        cluster.restart(dead.index)


def test_too_many_dead_bookies_stop_a_recovery_until_they_are_back(
    client: zbk.Client, other: zbk.Client, cluster: LocalCluster
) -> None:
    ledger = client.create_ledger(ensemble_size=2, write_quorum_size=2, ack_quorum_size=1)
    ledger.append_many([ENTRY % n for n in range(10)]).result(30)
    names = ledger.metadata.last_fragment.bookies
    dead = next(b for b in cluster.bookies if b.bookie_id == names[0])
    pause(cluster, dead.index)  # not killed yet, or the writer might replace it before the recovery
    try:
        with pytest.raises(zbk.LedgerRecoveryError) as failed:
            other.recover_ledger(ledger.ledger_id, timeout=1)
        assert failed.value.is_retriable
        state = other.get_ledger_metadata(ledger.ledger_id).state
        assert state is LedgerState.IN_RECOVERY
    finally:
        cluster.kill(dead.index)
        cluster.restart(dead.index)

    with other.recover_ledger(ledger.ledger_id) as reader:
        assert payloads(reader) == [ENTRY % n for n in range(10)]


def test_recovering_twice_changes_nothing(client: zbk.Client, other: zbk.Client) -> None:
    ledger = client.create_ledger()
    ledger.append(b"one")
    with other.recover_ledger(ledger.ledger_id) as reader:
        once = reader.metadata

    with client.recover_ledger(ledger.ledger_id) as reader:
        assert reader.metadata == once


def test_a_closed_ledger_is_only_opened(client: zbk.Client, other: zbk.Client) -> None:
    with client.create_ledger() as ledger:
        ledger.append(b"one")

    with other.recover_ledger(ledger.ledger_id) as reader:
        assert payloads(reader) == [b"one"]


def test_a_reserved_ledger_is_recovered_as_empty(client: zbk.Client) -> None:
    ledger_id = client.reserve_ledger()

    with client.recover_ledger(ledger_id) as reader:
        assert reader.last_add_confirmed == -1

    with pytest.raises(zbk.LedgerClosedError):
        client.open_for_append(ledger_id)


def test_a_striped_ledger_is_recovered(client: zbk.Client, other: zbk.Client) -> None:
    ledger = client.create_ledger(ensemble_size=4, write_quorum_size=2, ack_quorum_size=2)
    ledger.append_many([ENTRY % n for n in range(1_000)]).result(30)

    with other.recover_ledger(ledger.ledger_id) as reader:
        assert payloads(reader) == [ENTRY % n for n in range(1_000)]


def test_a_wrong_password_fences_nothing(client: zbk.Client, other: zbk.Client) -> None:
    """B8: the state stays OPEN and the writer goes on."""
    ledger = client.create_ledger(password=b"right")
    ledger.append(b"one")

    with pytest.raises(zbk.UnauthorizedError):
        other.recover_ledger(ledger.ledger_id, b"wrong")

    ledger.append(b"two")
    ledger.close()
    with other.recover_ledger(ledger.ledger_id, b"right") as reader:
        assert payloads(reader) == [b"one", b"two"]


def test_a_ledger_that_does_not_exist_is_not_recovered(client: zbk.Client) -> None:
    with pytest.raises(zbk.NoSuchLedgerError):
        client.recover_ledger(987_654)


def test_the_command_line_recovers_a_ledger(
    client: zbk.Client, cluster: LocalCluster, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    ledger = client.create_ledger()
    ledger.append_many([ENTRY % n for n in range(10)]).result(30)

    refused = shell.run("ledger", "close", str(ledger.ledger_id), exit_code=1)
    done = shell.run("ledger", "recover", str(ledger.ledger_id), "-o", "json")

    assert f"zbk ledger recover {ledger.ledger_id}".encode() in refused.stderr
    shown = json.loads(done.stdout)
    assert (shown["state"], shown["last_entry_id"], shown["payload_size"]) == ("CLOSED", 9, 1_000)
