"""VD ledgers whose entries are not on stable storage, as operators see them."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

import zbk
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


def unsynced_writer(client: zbk.Client, count: int = UNSYNCED_COUNT) -> zbk.LedgerWriter:
    """Return the writer of a VD ledger of which so many entries are not synced."""
    writer = client.create_ledger(ledger_type=zbk.LedgerType.VD_JOURNAL)
    writer.append_many([b"durable"] * 5)
    writer.sync()
    writer.append_many([b"y" * 100] * count).result()
    return writer


def shown(console: str, path: str) -> Any:  # noqa: ANN401 - JSON
    with urlopen(f"{console}{path}", timeout=20) as answer:  # noqa: S310 - our own
        return json.loads(answer.read())


def test_a_look_at_a_ledger_does_not_make_its_entries_durable(
    client: zbk.Client, console: str
) -> None:
    writer = unsynced_writer(client)
    path = f"/ledgers/{writer.ledger_id}.json"
    looks = [shown(console, path)["at_risk_count"] for _ in range(3)]
    assert looks == [UNSYNCED_COUNT] * 3
    writer.sync()
    assert shown(console, path)["at_risk_count"] == 0
    writer.close()
