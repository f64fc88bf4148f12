"""Logs on real bookies: owners that follow one another, roll, duel, die; readers across ledgers."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

import zbk
from tests.support.at_once import run_at_once
from tests.support.cluster import client, cluster, zookeeper_cluster
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

__all__ = ["client", "cluster", "zookeeper_cluster"]

NEXT_S = 30.0

OWNER = """
import sys, zbk
with zbk.connect(sys.argv[1]) as client:
    log = client.open_log(sys.argv[2], roll_size=2000)
    for number in range(10**9):
        position = log.append(b"%08d" % number)
        print(position, flush=True)
"""


@pytest.fixture
def other(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as connected:
        yield connected


def payloads(client: zbk.Client, name: str) -> list[bytes]:
    return [entry.payload for entry in client.read_log(name)]


def test_what_is_appended_is_read_across_ledgers(client: zbk.Client, name: str) -> None:
    expected = [b"%d" % n for n in range(90)]
    with client.open_log(name) as log:
        positions = [log.append(payload) for payload in expected[:30]]
        log.roll()
        positions += [log.append_async(payload).result(10) for payload in expected[30:60]]
        log.roll()
        positions += log.append_many(expected[60:]).result(10)

    entries = list(client.read_log(name))
    assert [entry.payload for entry in entries] == expected
    assert [entry.position for entry in entries] == positions == sorted(positions)
    assert len({position.ledger_id for position in positions}) == 3
    for index in (0, 1, 29, 30, 59, 60, 89):
        found = [entry.payload for entry in client.read_log(name, positions[index])]
        assert found == expected[index:]
    assert list(client.read_log(name, positions[-1].next)) == []
    assert [e.payload for e in client.read_log(name, positions[29].next)] == expected[30:]


def test_a_log_rolls_by_size_while_it_is_written(client: zbk.Client, name: str) -> None:
    expected = [b"%04d" % n * 50 for n in range(300)]
    with client.open_log(name, roll_size=10_000) as log:
        futures = [log.append_async(payload) for payload in expected[:200]]
        wait_until(lambda: len(log.metadata.ledger_ids) > 1, what="the roll")
        futures += [log.append_async(payload) for payload in expected[200:]]
        positions = [future.result(30) for future in futures]

    assert positions == sorted(positions)
    assert payloads(client, name) == expected
    assert len(client.get_log_metadata(name).ledger_ids) > 1


def test_a_log_rolls_by_age(client: zbk.Client, name: str) -> None:
    with client.open_log(name, roll_ms=1) as log:
        log.append(b"old")
        wait_until(lambda: log._gate.age_ms > 1)
        log.append(b"older than one millisecond by now")
        wait_until(lambda: len(log.metadata.ledger_ids) > 1, what="the roll")


def test_an_empty_ledger_is_not_rolled(client: zbk.Client, name: str) -> None:
    with client.open_log(name) as log:
        log.roll()
        log.roll()
        assert len(log.metadata.ledger_ids) == 1


def test_a_vd_log_is_synced_before_it_goes_on(client: zbk.Client, name: str) -> None:
    with client.open_log(name, ledger_type=zbk.LedgerType.VD_JOURNAL) as log:
        assert log.sync() is None
        first = log.append(b"a")
        log.roll()
        assert log.sync() == first, "the roll has made it durable"
        second = log.append(b"b")
        assert log.sync() == second

    assert payloads(client, name) == [b"a", b"b"]


def test_b26_who_takes_a_log_over_sees_every_acknowledged_entry(
    client: zbk.Client, other: zbk.Client, name: str
) -> None:
    """B26: the last two ledgers are recovered; the former owner cannot append any more."""
    log = client.open_log(name)
    log.append(b"0")
    log.roll()
    log.append_many([b"1", b"2"]).result(10)

    with other.open_log(name) as taken:
        assert [entry.payload for entry in taken.read()] == [b"0", b"1", b"2"]
        with pytest.raises(zbk.LogFencedError) as caught:
            log.append(b"lost?")
        assert caught.value.outcome == "unknown"
        taken.append(b"3")
        with pytest.raises(zbk.LogFencedError):
            log.append_many([b"x"])
        with pytest.raises(zbk.LogFencedError):
            log.roll()

    with pytest.raises(zbk.LogFencedError):
        log.close()
    assert payloads(client, name) == [b"0", b"1", b"2", b"3"]
    states = [client.get_ledger_metadata(i).state for i in log_ledgers(client, name)]
    assert set(states) == {zbk.LedgerState.CLOSED}


def log_ledgers(client: zbk.Client, name: str) -> tuple[int, ...]:
    return client.get_log_metadata(name).ledger_ids


def test_duelling_owners_lose_nothing_that_was_acknowledged(
    cluster: LocalCluster, client: zbk.Client, name: str
) -> None:
    """I34: three owners take the log from one another, again and again."""
    acked: list[tuple[zbk.LogPosition, bytes]] = []
    lock = threading.Lock()

    def duel(number: int) -> None:
        with zbk.connect(cluster.metadata_uri) as own:
            for round_number in range(4):
                with suppress(zbk.LogFencedError, zbk.MetadataConflictError):
                    log = own.open_log(name, roll_size=200)
                    for entry_number in range(20):
                        payload = b"%d %d %d" % (number, round_number, entry_number)
                        position = log.append(payload)
                        with lock:
                            acked.append((position, payload))
                    log.close()

    run_at_once([lambda number=number: duel(number) for number in range(3)])  # type: ignore[misc]

    with client.open_log(name) as log:
        entries = list(log.read())
    by_position = {entry.position: entry.payload for entry in entries}
    assert acked, "somebody got somewhere"
    assert all(by_position.get(position) == payload for position, payload in acked)
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    by_owner: dict[tuple[bytes, bytes], list[int]] = {}
    for entry in entries:
        owner, round_number, number = entry.payload.split()
        by_owner.setdefault((owner, round_number), []).append(int(number))
    assert all(numbers == list(range(len(numbers))) for numbers in by_owner.values())


@pytest.mark.parametrize("kind", ["cluster", "zookeeper_cluster"])
def test_a_killed_owner_is_followed_by_another(
    request: pytest.FixtureRequest, kind: str, name: str
) -> None:
    running: LocalCluster = request.getfixturevalue(kind)
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, running.metadata_uri, name], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acked: list[zbk.LogPosition] = []
    while len(acked) < 300 or acked[0].ledger_id == acked[-1].ledger_id:  # it has to be rolled
        acked.append(zbk.LogPosition.parse(process.stdout.readline().strip()))
    process.kill()
    rest, _ = process.communicate()
    acked += [zbk.LogPosition.parse(line) for line in rest.splitlines() if line.strip()]

    with zbk.connect(running.metadata_uri) as client, client.open_log(name) as log:
        entries = list(log.read())
        last = log.append(b"after")
        assert [entry.payload for entry in log.read(last)] == [b"after"]

    assert [entry.position for entry in entries][: len(acked)] == acked
    assert [entry.payload for entry in entries] == [b"%08d" % n for n in range(len(entries))]
    assert len({position.ledger_id for position in acked}) > 1, "it was rolled"


def test_a_tail_follows_rolls_and_owners(client: zbk.Client, other: zbk.Client, name: str) -> None:
    expected = [b"%d" % n for n in range(60)]
    log = client.open_log(name)
    tail = client.tail_log(name, timeout=NEXT_S)
    seen: list[zbk.LogEntry] = []

    def follow() -> None:
        seen.extend(next(tail) for _ in range(60))

    def write() -> None:
        for number, payload in enumerate(expected[:40]):
            if number % 10 == 9:
                log.roll()
            log.append(payload)
        with other.open_log(name) as taken:
            for payload in expected[40:]:
                taken.append(payload)

    run_at_once([follow, write])

    assert [entry.payload for entry in seen] == expected
    tail.close()
    assert list(tail) == []


def test_a_tail_without_news_says_so_and_can_be_asked_again(client: zbk.Client, name: str) -> None:
    with client.open_log(name) as log, log.tail(timeout=0.3) as tail:
        with pytest.raises(zbk.RequestTimeoutError):
            next(tail)
        log.append_many([b"a", b"b"]).result(10)
        seen: list[bytes] = []

        def look() -> bool:
            with suppress(zbk.RequestTimeoutError):
                seen.append(next(tail).payload)
            return len(seen) == 2

        wait_until(look, what="the entries")
    assert seen == [b"a", b"b"]


def test_truncation_deletes_whole_ledgers_before_a_position(client: zbk.Client, name: str) -> None:
    with client.open_log(name) as log:
        positions = []
        for number in range(4):
            positions.append(log.append(b"%d" % number))
            log.roll()
        ledgers = log_ledgers(client, name)
        tail = client.tail_log(name, timeout=NEXT_S)
        assert next(tail).payload == b"0"

        assert client.truncate_log(name, positions[2]) == 2
        assert log.truncate(positions[1]) == 0, "it begins behind that already"
        log.append(b"4")

    assert log_ledgers(client, name) == ledgers[2:]
    assert payloads(client, name) == [b"2", b"3", b"4"]
    for ledger_id in ledgers[:2]:
        with pytest.raises(zbk.NoSuchLedgerError):
            client.get_ledger_metadata(ledger_id)
    with pytest.raises(zbk.LogTruncatedError):
        list(client.read_log(name, positions[0]))
    with pytest.raises(zbk.LogTruncatedError):
        next(tail)
    with pytest.raises(zbk.InvalidOptionError):
        client.truncate_log(name, zbk.LogPosition(10**9, 0))


def test_a_log_is_deleted_with_its_ledgers_and_made_anew(client: zbk.Client, name: str) -> None:
    with client.open_log(name) as log:
        log.append(b"x")
    assert name in client.list_logs()
    ledgers = log_ledgers(client, name)

    assert client.delete_log(name) == 1

    assert name not in client.list_logs()
    with pytest.raises(zbk.NoSuchLogError):
        client.read_log(name).__next__()
    with pytest.raises(zbk.NoSuchLogError):
        client.open_log(name, create=False)
    with pytest.raises(zbk.NoSuchLedgerError):
        client.get_ledger_metadata(ledgers[0])
    with client.open_log(name) as again:
        again.append(b"new")
    assert payloads(client, name) == [b"new"]


def test_an_owner_of_a_deleted_log_never_writes_the_list_of_the_new_one(
    client: zbk.Client, other: zbk.Client, name: str
) -> None:
    old = client.open_log(name)
    old.append(b"old")
    other.delete_log(name)
    with other.open_log(name) as new:
        new.append(b"new")
        with pytest.raises((zbk.LogFencedError, zbk.NoSuchLogError)):
            old.roll()

    assert payloads(other, name) == [b"new"]


def test_the_password_is_the_same_for_all_ledgers(
    client: zbk.Client, other: zbk.Client, name: str
) -> None:
    with client.open_log(name, password=b"secret") as log:
        log.append(b"x")
        assert [entry.payload for entry in log.read()] == [b"x"]

    with pytest.raises(zbk.UnauthorizedError):
        other.open_log(name, password=b"wrong")
    with pytest.raises(zbk.UnauthorizedError):
        list(client.read_log(name))
    assert [entry.payload for entry in client.read_log(name, password=b"secret")] == [b"x"]


def test_a_closed_handle_takes_nothing(client: zbk.Client, name: str) -> None:
    log = client.open_log(name)
    log.append(b"x")
    log.close()
    log.close()

    with pytest.raises(zbk.LogClosedError):
        log.append(b"y")
    with pytest.raises(zbk.LogClosedError):
        log.roll()


@pytest.mark.parametrize("bad", ["", "a/b", ".", "x" * 129, "ä"])
def test_a_name_that_can_be_no_node_is_refused(client: zbk.Client, bad: str) -> None:
    with pytest.raises(zbk.InvalidOptionError):
        client.open_log(bad)
