"""Compaction on real bookies: the space of dead entries comes back, whoever kills the bookie."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import zbk
from tests.integration.test_garbage_collection import checkpoint, log_size, warnings_of
from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

MIB = 1024 * 1024
OPTIONS = QUICK | {
    "entry_log_size_max": MIB,
    "checkpoint_interval_ms": 50,
    "gc_interval_ms": 0,
    "gc_confirm_delay_ms": 50,
    "compaction_rate_size": 8 * MIB,
}
PAYLOAD = b"p" * 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=OPTIONS) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as client:
        yield client


def create(client: zbk.Client) -> zbk.LedgerWriter:
    """Make a ledger on the one bookie."""
    return client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def half_dead(cluster: LocalCluster, client: zbk.Client) -> int:
    """Fill logs with two ledgers in turn, delete one; return the other's id."""
    kept, dead = (create(client) for _ in range(2))
    for _ in range(80):
        for ledger in (kept, dead):
            ledger.append_many([PAYLOAD] * 50).result(30)
    dead.close()
    client.delete_ledger(dead.ledger_id)
    checkpoint(cluster, client, kept)
    kept.close()
    return kept.ledger_id


def check_readable(client: zbk.Client, ledger_id: int) -> int:
    """Read everything; return the bytes of payload."""
    with client.open_ledger(ledger_id) as reader:
        payloads = [bytes(one.payload) for one in reader.read(0, reader.last_add_confirmed)]
    assert payloads.count(PAYLOAD) == 80 * 50
    return sum(map(len, payloads))


def test_live_entries_survive_kills_in_the_middle_and_dead_ones_do_not(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path
) -> None:
    """B30, B31: killed at every stage, and again; then it is carried to its end."""
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    ledger_id = half_dead(cluster, client)
    (bookie,) = cluster.bookies
    before = log_size(cluster)

    def major() -> None:
        with suppress(zbk.ZbkError), zbk.connect(cluster.metadata_uri) as other:
            other.collect_garbage(bookie.bookie_id, compaction="major", timeout=5)

    stages = ("**/compaction", "**/*.log.compacting", "**/compaction", "**/*.log.compacting")
    for number, stage in enumerate(stages):
        asking = threading.Thread(target=major)
        asking.start()
        wait_until(lambda stage=stage: any(cluster.folder.glob(stage)), what=stage)  # type: ignore[misc]
        if number >= 2:
            wait_until(
                lambda: not any(cluster.folder.glob("**/*.log.compacting")), what="the new log"
            )
        cluster.kill(bookie.index)
        asking.join()
        cluster.restart(bookie.index)
        check_readable(client, ledger_id)
    wait_until(
        lambda: not any(cluster.folder.glob("**/compaction")), what="the end of what was cut"
    )
    with create(client) as more:
        checkpoint(cluster, client, more)

    shown = json.loads(shell.run("bookie", "show", bookie.bookie_id, "-o", "json").stdout)
    told = json.loads(shell.run("bookie", "gc", bookie.bookie_id, "--major", "-o", "json").stdout)
    after = json.loads(shell.run("bookie", "show", bookie.bookie_id, "-o", "json").stdout)

    assert told["compaction"] == "major"
    assert told["compaction_gave_up"] == ""
    assert after["major_win_log_count"] == 0
    assert after["compacted_log_count"] >= told["compacted_logs"]
    assert shown["gc_round_count"] == 0
    live_size = check_readable(client, ledger_id)
    assert log_size(cluster) < 1.6 * live_size
    assert log_size(cluster) < 0.65 * before
    assert not [*cluster.folder.glob("**/*compact*")]
    assert warnings_of(cluster) == []


def test_the_command_line_tells_what_compaction_would_win_and_has_won(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    ledger_id = half_dead(cluster, client)
    (bookie,) = cluster.bookies

    def run(*arguments: str) -> dict[str, Any]:
        return dict(json.loads(shell.run("bookie", *arguments, "-o", "json").stdout))

    run("gc", bookie.bookie_id)
    before = run("show", bookie.bookie_id)
    minor = run("gc", bookie.bookie_id, "--minor")
    major = run("gc", bookie.bookie_id, "--major")
    after = run("show", bookie.bookie_id)

    assert (before["minor_win_log_count"], before["minor_win_size"]) == (0, 0)
    assert minor["compacted_logs"] == 0
    assert major["compacted_logs"] == before["major_win_log_count"] != 0
    win, won = before["major_win_size"], major["compacted_size"]
    assert abs(won - win) < 0.1 * win
    assert after["compacted_size"] == won
    assert after["major_win_size"] == 0
    check_readable(client, ledger_id)
    assert warnings_of(cluster) == []


def test_readers_notice_nothing_of_it(cluster: LocalCluster, client: zbk.Client) -> None:
    """Sources go under reads that are on their way, and not one read fails."""
    ledger_id = half_dead(cluster, client)
    (bookie,) = cluster.bookies
    is_over = threading.Event()
    failures: list[BaseException] = []
    read_counts = [0, 0]

    def keep_reading(number: int) -> None:
        try:
            with zbk.connect(cluster.metadata_uri) as other:
                while not is_over.is_set():
                    check_readable(other, ledger_id)
                    read_counts[number] += 1
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    readers = [threading.Thread(target=keep_reading, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()

    status = client.collect_garbage(bookie.bookie_id, compaction="major", timeout=60)

    is_over.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert min(read_counts) >= 1
    assert status.compacted_log_count > 0
    assert warnings_of(cluster) == []
