"""Ledgers that bypass the journal, on real bookies: kill -9, and what is written to the disk."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zbk
from tests.support.cluster import Shell
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

BYPASS = zbk.LedgerType.VD_BYPASS_JOURNAL
COUNT = 2_000
SIZE = 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three bookies that sync only when they are asked to; a checkpoint would, too."""
    unsynced = {"sync_interval_ms": 0, "checkpoint_interval_ms": 3_600_000}
    with LocalCluster(tmp_path / "data", bookie_options=unsynced) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri, explicit_lac_ms=0, quorum_grace_ms=20_000) as connected:
        yield connected


def payloads(first: int, count: int) -> list[bytes]:
    return [b"%08d" % number + os.urandom(SIZE - 8) for number in range(first, first + count)]


def test_what_was_acknowledged_outlives_the_kill_of_all_bookies(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    """Nothing of it was synced, and no journal has it: a start finds it in the entry logs."""
    ledger = client.create_ledger(ledger_type=BYPASS)
    written = payloads(0, COUNT)
    assert ledger.append_many(written).result(30)[-1] == COUNT - 1
    for index in range(3):
        cluster.kill(index)
    for index in range(3):
        cluster.restart(index)

    with client.recover_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == COUNT - 1
        assert [bytes(one.payload) for one in reader.read(0, COUNT - 1)] == written


def test_bookies_that_are_killed_in_turn_do_not_end_a_writer(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    written: list[bytes] = []
    with client.create_ledger(ledger_type=BYPASS) as ledger:
        for index in range(3):
            part = payloads(len(written), COUNT)
            written += part
            ledger.append_many(part[: COUNT // 2]).result(30)
            cluster.kill(index)
            ledger.append_many(part[COUNT // 2 :]).result(30)
            cluster.restart(index)
            assert ledger.sync() == len(written) - 1

    with client.open_ledger(ledger.ledger_id) as reader:
        last = reader.last_add_confirmed
        assert last == len(written) - 1
        assert [bytes(one.payload) for one in reader.read(0, last)] == written


def test_an_entry_is_written_once(client: zbk.Client) -> None:
    """A journal has keys, LACs, and which entries were synced."""
    sizes = {}
    for ledger_type in (zbk.LedgerType.VD_JOURNAL, BYPASS):
        before = journal_size(client)
        with client.create_ledger(ledger_type=ledger_type) as ledger:
            ledger.append_many(payloads(0, COUNT)).result(30)
        sizes[ledger_type] = (journal_size(client) - before) / (3 * COUNT * SIZE)
    assert sizes[zbk.LedgerType.VD_JOURNAL] > 1
    assert sizes[BYPASS] < 0.01


def journal_size(client: zbk.Client) -> int:
    return sum(
        client.bookie_info(one.bookie_id).journal_write_size for one in client.list_bookies()
    )


@pytest.mark.parametrize("ledger_type", [zbk.LedgerType.VD_JOURNAL, BYPASS])
def test_show_says_what_each_bookie_has_and_has_synced(
    cluster: LocalCluster, client: zbk.Client, tmp_path: Path, ledger_type: zbk.LedgerType
) -> None:
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
    with client.create_ledger(ledger_type=ledger_type) as ledger:

        def copies() -> dict[str, dict[str, Any]]:
            done = shell.run("ledger", "show", str(ledger.ledger_id), "-o", "json")
            return {one["bookie_id"]: one for one in json.loads(done.stdout)["copies"]}

        def wait_for(synced_id: int, last_id: int) -> None:
            """Wait for the third bookie, too: of an ack quorum it is true at once."""
            wait_until(
                lambda: all(
                    (one["last_add_synced"], one["last_entry_id"]) == (synced_id, last_id)
                    for one in copies().values()
                ),
                what=f"entries up to {synced_id} synced and up to {last_id} there",
            )

        ledger.append_many(payloads(0, 100)).result(30)
        wait_for(-1, 99)
        assert ledger.sync() == 99
        wait_for(99, 99)  # or the sync of a late bookie covers what comes next
        ledger.append_many(payloads(100, 50)).result(30)
        wait_for(99, 149)
        alive = copies()
        assert alive.keys() == {one.bookie_id for one in cluster.bookies}
        for one in alive.values():
            assert (one["unsynced_count"], one["holes"], one["why"]) == (50, [], "")
            assert (one["own_log"] is not None) == (ledger_type is BYPASS)
        cluster.kill(2)  # the writer notices, and may sync what it would have to move
        found = copies()
        assert found.pop(cluster.bookies[2].bookie_id)["why"]
        for bookie_id, one in found.items():
            assert one["last_entry_id"] == 149
            assert (one["holes"], one["why"]) == ([], "")
            assert one["own_log"] == alive[bookie_id]["own_log"]
        table = shell.run("ledger", "show", str(ledger.ledger_id)).stdout.decode()
        assert "LAST-ADD-SYNCED" in table
        assert "OWN-LOG" in table
        cluster.restart(2)
