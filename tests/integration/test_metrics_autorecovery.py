"""Each metric of autorecovery moves when its cause happens, in real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK
from tests.support.http import Scrape, ask, url_in
from tests.support.lost_bookies import Autorecoveries, Watched
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import LocalCluster
from zbk.metrics.table import metrics_of

BY_A_START = {
    "zbk_build_info",
    "zbk_metadata_connected",
    "zbk_autorecovery_enabled",
    "zbk_auditor_leader",
    "zbk_auditor_brake",
}
BY_A_LOST_BOOKIE = {
    "zbk_auditor_lost_bookies",
    "zbk_underreplicated_ledgers",
    "zbk_unrepairable_ledgers",
    "zbk_repair_completion_seconds",
    "zbk_repairs_running",
    "zbk_repairs_total",
    "zbk_repair_copied_entries_total",
    "zbk_repair_copied_bytes_total",
}
ELSEWHERE = {"zbk_metadata_interruptions_total"}  # unit/metadata/stores/test_session_metrics.py

ENTRY = b"x" * 1_000
RATE = 50_000
"""Bytes a second: a repair takes so long that it is seen."""


def test_each_metric_of_autorecovery_has_a_test_that_moves_it() -> None:
    wanted = {metric.name for metric in metrics_of("autorecovery")}
    assert wanted == BY_A_START | BY_A_LOST_BOOKIE | ELSEWHERE


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "data", bookie_count=4, bookie_options=QUICK) as running:
        yield running


def create(client: zbk.Client, copy_count: int, victim: str) -> zbk.LedgerWriter:
    while True:
        ledger = client.create_ledger(
            ensemble_size=copy_count, write_quorum_size=copy_count, ack_quorum_size=copy_count
        )
        if victim in ledger.metadata.last_fragment.bookies:
            return ledger
        ledger.close()
        client.delete_ledger(ledger.ledger_id)


def test_a_lost_bookie_shows_in_every_metric_and_the_gauges_fall_after_the_repair(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    victim = cluster.bookies[0].bookie_id
    with zbk.connect(cluster.metadata_uri) as client:
        for _ in range(4):
            with create(client, 3, victim) as ledger:
                ledger.append_many([ENTRY] * 100).result()
        with create(client, 1, victim) as alone:
            alone.append(ENTRY)
    with (
        ClusterConnection(cluster.metadata_uri) as connection,
        Autorecoveries(cluster.metadata_uri, tmp_path) as processes,
    ):
        processes.start(
            replication_rate_size=RATE, brake_hold_ms=3_000, repair_retry_ms_max=16, worker_count=1
        )
        wait_until(lambda: "READY" in processes.log(), 30)
        ready = next(line for line in processes.log().splitlines() if "READY" in line)
        url = url_in(ready)
        # a term begins with the brake on
        wait_until(lambda: Scrape(url).total("zbk_auditor_brake") == 1, 30)
        Watched(connection).wait_ready()
        scrape = Scrape(url)
        assert scrape.names() == {metric.name for metric in metrics_of("autorecovery")}
        for name in BY_A_START:
            assert scrape.total(name) == (name != "zbk_auditor_brake"), name
        assert ask(f"{url}/readyz").body == "ok\n"

        cluster.kill(0)
        unseen = set(BY_A_LOST_BOOKIE)

        def is_seen() -> bool:
            now = Scrape(url)
            unseen.difference_update({name for name in unseen if now.total(name) > 0})
            return not unseen

        try:
            wait_until(is_seen, 60)
        except AssertionError:
            raise AssertionError(f"not moved: {unseen}") from None
        Watched(connection).wait_whole()

        def has_fallen() -> bool:
            now = Scrape(url)
            gauges = ("zbk_underreplicated_ledgers", "zbk_repairs_running", "zbk_auditor_brake")
            return not sum(now.total(name) for name in gauges)

        wait_until(has_fallen, 30, what="the gauges to fall")
        done = Scrape(url)
        assert done.total("zbk_repair_completion_seconds") == 0
        assert done.total("zbk_unrepairable_ledgers") == 1
        assert done.value("zbk_repairs_total", result="finished") >= 4
        assert done.total("zbk_repair_copied_entries_total") >= 400

        cluster.restart(0)
        wait_until(lambda: Scrape(url).total("zbk_unrepairable_ledgers") == 0, 60)
        assert Scrape(url).total("zbk_auditor_lost_bookies") == 0


def test_a_bookie_with_autorecovery_exposes_both(tmp_path: Path) -> None:
    class Beside(LocalCluster):
        def _bookie_command(self, index: int, port: int) -> list[str]:
            return [*super()._bookie_command(index, port), "--autorecovery"]

    with (
        Beside(tmp_path / "data", bookie_count=1, bookie_options=QUICK) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
    ):
        (found,) = client.list_bookies()
        url = str(found.http)
        wanted = {metric.name for metric in metrics_of("bookie", "autorecovery")}
        assert Scrape(url).names() == wanted
        wait_until(lambda: Scrape(url).total("zbk_auditor_leader") == 1, 30)
