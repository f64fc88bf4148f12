"""`zbk bench read` and `tail` on small ledgers: their figures, not how good they are."""

import json
from pathlib import Path

import pytest

from tests.support.cluster import Shell, cluster
from zbk.cluster.local import LocalCluster

__all__ = ["cluster"]


def test_a_cold_ledger_is_read_from_bookies_that_were_restarted(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})

    done = shell.run("bench", "read", "--cold", "--count", "2000", "-o", "json")

    found = json.loads(done.stdout)
    assert found["is_cold"] is True
    assert found["entry_count"] >= 2000
    assert found["entries_per_s"] > 0
    assert list(tmp_path.glob("zbk-bench-*")) == []


def test_a_ledger_is_read_warm_in_batches_from_a_running_cluster(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    shell = Shell(tmp_path)
    where = ("--metadata", cluster.metadata_uri)

    done = shell.run("bench", "read", "--batches", "--count", "2000", *where, "-o", "json")

    found = json.loads(done.stdout)
    assert found["is_cold"] is False
    assert found["is_in_batches"] is True
    assert found["entry_count"] >= 2000


def test_somebody_elses_bookies_are_not_restarted_for_a_cold_read(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    done = Shell(tmp_path).run(
        "bench", "read", "--cold", "--metadata", cluster.metadata_uri, exit_code=2
    )

    assert b"--cold excludes --metadata" in done.stderr


def test_a_follower_in_another_process_has_each_entry_of_a_pd_ledger(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    shell = Shell(tmp_path)
    where = ("--metadata", cluster.metadata_uri)

    done = shell.run("bench", "tail", "--count", "300", "--rate", "1000", *where, "-o", "json")

    found = json.loads(done.stdout)
    assert found["measured"] == "tail"
    assert found["entry_count"] == found["latency_count"] == 300
    assert 0 <= found["seen_before_ack_count"] <= 300
    assert 0 <= found["latency_p50_ms"] <= found["latency_p99_ms"] <= found["latency_max_ms"]
    assert found["seconds"] >= 299 / 1000


@pytest.mark.parametrize("kind", ["pd", "vd"])
def test_a_follower_in_another_process_has_each_entry_of_many_ledgers(
    tmp_path: Path, cluster: LocalCluster, kind: str
) -> None:
    where = ("--metadata", cluster.metadata_uri, "--type", kind, "-o", "json")

    done = Shell(tmp_path).run("bench", "tail", "--ledgers", "20", "--count", "210", *where)

    found = json.loads(done.stdout)
    assert found["ledger_count"] == 20
    assert found["latency_count"] == 210


def test_a_follower_in_another_process_has_each_entry_of_a_vd_ledger(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    shell = Shell(tmp_path)
    where = ("--metadata", cluster.metadata_uri)

    done = shell.run("bench", "tail", "--type", "vd", "--count", "100", *where, "-o", "json")

    found = json.loads(done.stdout)
    assert found["ledger_type"] == "VD_JOURNAL"
    assert found["latency_count"] == 100
