"""VD ledgers whose entries are not on stable storage, as operators see them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import zbk
from tests.support.cluster import Shell
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.console.console import running_console

UNSYNCED_COUNT = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three bookies that sync only what they are asked to."""
    folder = tmp_path_factory.mktemp("unsynced") / "data"
    with LocalCluster(folder, bookie_options={"sync_interval_ms": 0}) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    """A client whose idle writers send nothing."""
    with zbk.connect(cluster.metadata_uri, explicit_lac_ms=0) as client:
        yield client


@pytest.fixture(scope="module")
def console(cluster: LocalCluster) -> Iterator[str]:
    with running_console(cluster.metadata_uri, "127.0.0.1:0") as url:
        yield url


def synced_writers(client: zbk.Client, count: int) -> list[zbk.LedgerWriter]:
    """Return writers of VD ledgers whose entries are all synced."""
    writers = [client.create_ledger(ledger_type=zbk.LedgerType.VD_JOURNAL) for _ in range(count)]
    for writer in writers:
        writer.append_many([b"durable"] * 5)
        writer.sync()  # of a bookie's whole journal
    return writers


def append(writer: zbk.LedgerWriter, count: int) -> None:
    """Append so many entries of 100 bytes, acknowledged and not synced."""
    writer.append_many([b"y" * 100] * count).result()


def shown(console: str, path: str) -> Any:  # noqa: ANN401 - JSON
    with urlopen(f"{console}{path}", timeout=20) as answer:  # noqa: S310 - our own
        return json.loads(answer.read())


def test_a_look_at_a_ledger_does_not_make_its_entries_durable(
    client: zbk.Client, console: str
) -> None:
    (writer,) = synced_writers(client, 1)
    append(writer, UNSYNCED_COUNT)
    path = f"/ledgers/{writer.ledger_id}.json"
    looks = [shown(console, path)["at_risk_count"] for _ in range(3)]
    assert looks == [UNSYNCED_COUNT] * 3
    writer.sync()
    assert shown(console, path)["at_risk_count"] == 0
    writer.close()


def test_the_largest_of_the_cluster_are_listed_and_stay_unsynced(
    cluster: LocalCluster, client: zbk.Client, console: str, tmp_path: Path
) -> None:
    small, large = synced_writers(client, 2)
    ids = [large.ledger_id, small.ledger_id]
    shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})

    def listed(order: str) -> list[dict[str, Any]]:
        done = shell.run("bookie", "unsynced", "--order", order, "-o", "json")
        assert done.stderr == b""
        return [json.loads(line) for line in done.stdout.splitlines()]

    append(small, 10)
    wait_until(lambda: bool(listed("age")))  # an age has milliseconds: the other is younger
    append(large, 400)
    by_size, by_age = listed("size"), listed("age")
    assert [one["ledger_id"] for one in by_size] == ids
    assert [one["entry_count"] for one in by_size] == [400, 10]
    assert by_size[0]["unsynced_size"] > 400 * 100
    assert len(by_size[0]["bookies"]) >= 2, "an ack quorum has the entries"
    assert [one["ledger_id"] for one in by_age] == ids[::-1]
    table = shell.run("bookie", "unsynced").stdout.decode().splitlines()
    assert table[0].split() == ["LEDGER-ID", "UNSYNCED-SIZE", "ENTRY-COUNT", "AGE", "BOOKIES"]

    # the console learns of bookies meanwhile, and waits a second for them
    wait_until(
        lambda: (
            [one["ledger_id"] for one in shown(console, "/durability.json")["largest"]["ledgers"]]
            == ids
        )
    )
    page = shown(console, "/durability.json")
    assert [one["ledger_id"] for one in page["ledgers"][:2]] == ids, "the looks synced nothing"
    large.sync()
    # an fsync of a bookie covers all ledgers of its journal; the sync did not wait for the third
    wait_until(lambda: listed("size") == [])
    for writer in (small, large):
        writer.close()


def test_a_cluster_whose_bookies_serve_no_admin_api_is_an_error(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options={"http": "off"}) as one:
        shell = Shell(tmp_path, {"ZBK_METADATA": one.metadata_uri})
        done = shell.run("bookie", "unsynced", exit_code=3)
    assert b"reports none: it serves no HTTP" in done.stderr
    assert b"Traceback" not in done.stderr
