"""Deleted ledgers on real bookies: their space comes back, their ids do not."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.wire.messages import GarbageStatus

MIB = 1024 * 1024
OPTIONS = QUICK | {
    "entry_log_size_max": MIB,
    "checkpoint_interval_ms": 50,
    "gc_interval_ms": 0,
    "gc_confirm_delay_ms": 50,
}
PAYLOAD = b"p" * 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "data", bookie_options=OPTIONS) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as client:
        yield client


def fill(ledger: zbk.LedgerWriter, size: int) -> None:
    """Append so many bytes."""
    for _ in range(4):
        ledger.append_many([PAYLOAD] * (size // 4 // len(PAYLOAD))).result(30)


def log_size(cluster: LocalCluster) -> int:
    """Return the bytes of all entry logs of all bookies; one may go while this looks."""
    size = 0
    for file in cluster.folder.glob("**/logs/*.log"):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def checkpoint(cluster: LocalCluster, client: zbk.Client, ledger: zbk.LedgerWriter) -> None:
    """Make every bookie pass a log mark over what is written by now."""
    bookie_ids = [bookie.bookie_id for bookie in cluster.bookies]

    def checkpoint_counts() -> list[int]:
        return [client.bookie_info(bookie_id).checkpoint_count for bookie_id in bookie_ids]

    before = checkpoint_counts()

    def is_past() -> bool:
        ledger.append(b"one more, so that there is a reason")
        return all(now > then + 1 for then, now in zip(before, checkpoint_counts(), strict=True))

    wait_until(is_past, what="a checkpoint on each bookie")


def collect(cluster: LocalCluster, client: zbk.Client) -> list[GarbageStatus]:
    return [client.collect_garbage(bookie.bookie_id, timeout=30) for bookie in cluster.bookies]


def check_ended(ledger: zbk.LedgerWriter) -> None:
    """Append to a ledger that is gone: of the first one nobody knows, then the writer does."""
    with pytest.raises(zbk.ZbkError, match=f"no ledger {ledger.ledger_id}") as caught:
        ledger.append(b"too late")
    assert caught.value.outcome == "unknown"
    with pytest.raises(zbk.NoSuchLedgerError):
        ledger.append(b"too late")


def warnings_of(cluster: LocalCluster) -> list[str]:
    lines = [
        line
        for index in range(len(cluster.bookies))
        for line in (cluster.folder / f"bookie{index}.log").read_text().splitlines()
    ]
    return [line for line in lines if "WARNING" in line or "ERROR" in line]


def test_deleted_ledgers_give_their_space_back_and_take_nothing_any_more(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    """B16, B32: late writers, before and after kill -9; the other ledger is whole."""
    kept, first_late, second_late, fenced = (client.create_ledger() for _ in range(4))
    fill(kept, MIB // 2)
    for ledger in (first_late, second_late, fenced):
        fill(ledger, 3 * MIB)
    fill(kept, MIB)
    checkpoint(cluster, client, kept)
    full_size = log_size(cluster)
    with zbk.connect(cluster.metadata_uri) as other:
        other.recover_ledger(fenced.ledger_id).close()
        for ledger in (first_late, second_late, fenced):
            other.delete_ledger(ledger.ledger_id)

    statuses = collect(cluster, client)

    assert [status.dropped_count for status in statuses] == [3, 3, 3]
    assert all(status.gave_up == "" for status in statuses)
    assert full_size - log_size(cluster) > 3 * 6 * MIB
    assert sum(status.freed_size for status in statuses) == full_size - log_size(cluster)
    assert len([*cluster.folder.glob("**/index/**/*.idx")]) == len(cluster.bookies)
    check_ended(first_late)

    for bookie in cluster.bookies:
        cluster.kill(bookie.index)
    for bookie in cluster.bookies:
        cluster.restart(bookie.index)

    for ledger in (second_late, fenced):
        check_ended(ledger)
    assert [status.candidate_count for status in collect(cluster, client)] == [0, 0, 0]
    with client.recover_ledger(kept.ledger_id) as reader:
        payloads = [bytes(entry.payload) for entry in reader.read(0, reader.last_add_confirmed)]
    assert payloads.count(PAYLOAD) == MIB // 2 // 4_000 * 4 + MIB // 4_000 * 4
    assert warnings_of(cluster) == []


def test_the_space_of_a_clusters_last_ledger_is_freed(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    ledger = client.create_ledger()
    fill(ledger, MIB)
    checkpoint(cluster, client, ledger)
    ledger.close()
    client.delete_ledger(ledger.ledger_id)

    statuses = collect(cluster, client)

    assert [(status.dropped_count, status.gave_up) for status in statuses] == [(1, "")] * 3
    assert [*cluster.folder.glob("**/index/**/*.idx")] == []


def test_the_command_line_tells_what_a_round_did(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    bookie_id = cluster.bookies[0].bookie_id
    with client.create_ledger() as kept:
        deleted = client.create_ledger()
        for _ in range(3):  # adds that come together may lie in one log
            fill(deleted, MIB)
        deleted.close()
        client.delete_ledger(deleted.ledger_id)
        fill(kept, MIB)
        checkpoint(cluster, client, kept)

    told = json.loads(shell.run("bookie", "gc", bookie_id, "-o", "json").stdout)
    shown = json.loads(shell.run("bookie", "show", bookie_id, "-o", "json").stdout)

    assert (told["dropped"], told["gave_up"]) == (1, "")
    assert told["removed_logs"] >= 2
    assert told["freed_size"] >= 2 * MIB - 100_000
    assert shown["gc_ledger_count"] == 1
    assert shown["gc_log_count"] == told["removed_logs"]
    assert shown["ledger_count"] == 1
    assert shown["entry_log_count"] >= 1
    assert shown["dead_size"] == told["dead_size"]


@pytest.mark.parametrize("use_zookeeper", [False, True])
def test_rounds_come_by_themselves(tmp_path: Path, use_zookeeper: bool) -> None:
    options = OPTIONS | {"gc_interval_ms": 100}
    with (
        LocalCluster(
            tmp_path / "data", use_zookeeper=use_zookeeper, bookie_options=options
        ) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
        client.create_ledger() as kept,
    ):
        deleted = client.create_ledger()
        fill(deleted, 2 * MIB)
        fill(kept, MIB)
        deleted.close()
        before = log_size(cluster)
        client.delete_ledger(deleted.ledger_id)

        wait_until(lambda: log_size(cluster) < before - 3 * MIB, what="space")

        assert warnings_of(cluster) == []


def test_a_bookie_stops_in_good_order_in_the_middle_of_a_round(tmp_path: Path) -> None:
    options = OPTIONS | {"gc_confirm_delay_ms": 3_600_000}
    with (
        LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
    ):
        deleted, kept = (
            client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
            for _ in range(2)
        )
        for ledger in (deleted, kept):
            ledger.append(b"x")
            ledger.close()
        client.delete_ledger(deleted.ledger_id)
        (bookie,) = cluster.bookies
        with pytest.raises(zbk.RequestTimeoutError):
            client.collect_garbage(bookie.bookie_id, timeout=0.5)

        assert cluster.terminate(bookie.index) == 0

        assert warnings_of(cluster) == []


def test_own_logs_of_deleted_ledgers_go_in_one_round_and_nothing_is_copied(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    """Bypass ledgers have entry logs of their own; one of them is written all the time."""
    kind = zbk.LedgerType.VD_BYPASS_JOURNAL
    with client.create_ledger(ledger_type=kind) as kept:
        fill(kept, MIB // 2)
        before = log_size(cluster)
        for _ in range(12):
            with client.create_ledger(ledger_type=kind) as ledger:
                fill(ledger, MIB // 2)
                fill(kept, MIB // 16)
            client.delete_ledger(ledger.ledger_id)
        grown = log_size(cluster)
        assert grown > before + 3 * 12 * MIB // 2

        results = collect(cluster, client)

        assert [one.dropped_count for one in results] == [12] * 3
        assert all(one.log_count >= 12 for one in results)
        assert all(one.compacted_log_count == 0 for one in results)
        left = before + 3 * 12 * MIB // 16
        assert log_size(cluster) < left + MIB
        cluster.kill(0)
        cluster.restart(0)
        fill(kept, MIB // 16)
        last = kept.close()
    with client.open_ledger(kept.ledger_id) as reader:
        assert sum(len(one.payload) for one in reader.read(0, last)) == (last + 1) * len(PAYLOAD)
