"""Each metric of a client moves when its cause happens, against real bookies."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import zbk
from tests.support.cluster import QUICK, pause
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.metrics.table import metrics_of

ENTRY = b"x" * 1_000
ELSEWHERE = {"zbk_metadata_interruptions_total"}  # unit/metadata/stores/test_session_metrics.py


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "data", bookie_count=4, bookie_options=QUICK) as running:
        yield running


def total(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert found, name
    return sum(found)


def test_every_metric_of_a_client_is_exposed_and_moves(cluster: LocalCluster) -> None:
    registry = CollectorRegistry()
    with zbk.connect(cluster.metadata_uri, metrics=registry, request_timeout_ms=1_000) as client:
        exposed = {family.name for family in registry.collect()}
        table = metrics_of("client")
        stems = {one.name.removesuffix("_total").removesuffix("_info") for one in table}
        assert exposed == stems
        assert total(registry, "zbk_metadata_connected") == 1
        assert total(registry, "zbk_build_info", process="client") == 1

        for ledger_type in zbk.LedgerType:
            for name in "entries", "bytes":  # from the start, at 0
                metric = f"zbk_client_appended_{name}_total"
                assert total(registry, metric, type=ledger_type.value.lower()) == 0
            with client.create_ledger(ledger_type=ledger_type) as ledger:
                ledger.append_many([ENTRY] * 10).result()
                assert total(registry, "zbk_client_open_ledgers") == 1
            assert len(list(client.open_ledger(ledger.ledger_id).read(0, 9))) == 10
        wait_until(lambda: total(registry, "zbk_client_open_ledgers") == 0)
        for name in "pd_journal", "vd_journal", "vd_bypass_journal":
            assert total(registry, "zbk_client_appended_entries_total", type=name) == 10
            assert total(registry, "zbk_client_appended_bytes_total", type=name) >= 10_000
        for operation in "add", "read", "sync":
            moved = total(registry, "zbk_client_request_seconds_count", operation=operation)
            assert moved > 0, operation
        assert total(registry, "zbk_client_connections") >= 3

        with client.create_ledger() as ledger:
            ledger.append(ENTRY)
            names = [bookie.bookie_id for bookie in cluster.bookies]
            victim = names.index(ledger.metadata.last_fragment.bookies[0])
            pause(cluster, victim)
            future = ledger.append_many([ENTRY] * 1_000)
            is_over = threading.Event()
            future.add_done_callback(lambda _future: is_over.set())
            cluster.kill(victim)
            future.result(30)
            for _ in range(50):
                ledger.append(ENTRY)
            wait_until(lambda: total(registry, "zbk_client_ensemble_changes_total") > 0, 30)
            assert total(registry, "zbk_client_failed_requests_total", operation="add") > 0


def test_pending_bytes_rise_and_fall_and_failed_appends_count(cluster: LocalCluster) -> None:
    registry = CollectorRegistry()
    with zbk.connect(
        cluster.metadata_uri, metrics=registry, request_timeout_ms=1_000, quorum_grace_ms=500
    ) as client:
        ledger = client.create_ledger()
        ledger.append(ENTRY)
        for index in range(4):
            pause(cluster, index)
        future = ledger.append_many([ENTRY] * 100)
        assert total(registry, "zbk_client_pending_bytes") >= 100_000
        for index in range(4):
            cluster.kill(index)
        with pytest.raises(zbk.ZbkError):
            future.result(60)
        assert total(registry, "zbk_client_failed_appends_total") > 0
        wait_until(lambda: total(registry, "zbk_client_pending_bytes") < 100_000)


def test_a_registry_holds_one_client_and_is_empty_after_it(cluster: LocalCluster) -> None:
    registry = CollectorRegistry()
    with (
        zbk.connect(cluster.metadata_uri, metrics=registry),
        pytest.raises(zbk.InvalidOptionError, match="has a client already"),
    ):
        zbk.connect(cluster.metadata_uri, metrics=registry)
    assert not list(registry.collect())
    with zbk.connect(cluster.metadata_uri, metrics=registry):
        assert list(registry.collect())
