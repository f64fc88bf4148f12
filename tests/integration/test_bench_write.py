"""`zbk bench write` and `floor` on small loads: what they tell, not how good it is."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import zbk
from benchmarks.slow_bookie import slow_programs
from tests.support.cluster import Shell, cluster
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

__all__ = ["cluster"]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path, {"TMPDIR": str(tmp_path)})


def told(shell: Shell, *arguments: str) -> list[dict[str, Any]]:
    done = shell.run("bench", *arguments, "-o", "json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def written(shell: Shell, cluster: LocalCluster, *arguments: str) -> dict[str, Any]:
    return told(shell, "write", "--metadata", cluster.metadata_uri, *arguments)[-1]


@pytest.mark.parametrize("api", ["many", "async", "sync"])
def test_every_entry_is_written_and_its_latency_told(
    shell: Shell, cluster: LocalCluster, api: str
) -> None:
    found = written(shell, cluster, "--count", "130", "--batch", "50", "--api", api)

    assert found["measured"] == "zbk"
    assert found["entry_count"] == 130
    with (
        zbk.connect(cluster.metadata_uri) as client,
        client.open_ledger(found["ledger_id"]) as reader,
    ):
        assert reader.last_add_confirmed == 130  # and the one that warms up
    assert 0 < found["latency_p50_ms"] <= found["latency_p99_ms"] <= found["latency_p999_ms"]
    assert found["latency_p999_ms"] <= found["latency_max_ms"] * 1.02
    assert sum(count for _bound_ms, count in found["histogram"]) == found["latency_count"]


@pytest.mark.parametrize("ledger_type", ["vd", "vd-bypass"])
def test_a_load_may_be_striped(shell: Shell, cluster: LocalCluster, ledger_type: str) -> None:
    sizes = ("-E", "3", "-w", "2", "-a", "1")

    found = written(shell, cluster, "--count", "130", "--type", ledger_type, *sizes)

    assert found["entry_count"] == 130
    with (
        zbk.connect(cluster.metadata_uri) as client,
        client.open_ledger(found["ledger_id"]) as reader,
    ):
        assert reader.metadata.quorum.is_striped
        assert reader.last_add_confirmed == 130


def test_several_processes_write_their_shares_at_once(shell: Shell, cluster: LocalCluster) -> None:
    found = written(
        shell, cluster, "--count", "103", "--api", "sync", "--processes", "3", "--ledgers", "2"
    )

    assert found["entry_count"] == found["latency_count"] == 103
    assert found["process_count"] == 3
    assert sum(count for _bound_ms, count in found["histogram"]) == 103
    assert found["latency_p50_ms"] <= found["latency_p99_ms"] <= found["latency_max_ms"] * 1.02
    assert found["client_cpu_us_per_entry"] > 0
    assert found["bookie_cpu_us_per_entry"] > 0


def test_the_failure_of_a_process_is_told(shell: Shell, cluster: LocalCluster) -> None:
    done = shell.run(
        "bench", "write", "--metadata", cluster.metadata_uri, "--size", str(64 << 20),
        "--count", "2", "--processes", "2", exit_code=3,
    )  # fmt: skip

    assert b"a client process failed" in done.stderr
    assert b"Traceback" not in done.stderr


def test_at_a_rate_all_that_is_due_in_the_time_is_written(
    shell: Shell, cluster: LocalCluster
) -> None:
    *samples, found = told(
        shell, "write", "--metadata", cluster.metadata_uri,
        "--rate", "1000", "--batch", "10", "--seconds", "1200ms", "--samples",
    )  # fmt: skip

    assert found["entry_count"] == 1_200
    assert found["latency_count"] == 120
    assert found["seconds"] >= 1.19
    assert [sample["measured"] for sample in samples] == ["sample"]
    assert 0 < samples[0]["entry_count"] <= 1_200
    assert samples[0]["bookie_rss_size_max"] > 0


def test_several_ledgers_are_written_at_once_beside_idle_ones(
    shell: Shell, cluster: LocalCluster
) -> None:
    with zbk.connect(cluster.metadata_uri) as client:
        before = len(list(client.list_ledgers()))

        found = written(
            shell, cluster, "--count", "1001", "--batch", "10", "--ledgers", "3",
            "--idle-ledgers", "4",
        )  # fmt: skip

        ids = sorted(client.list_ledgers())
        lengths = [client.get_ledger_metadata(ledger_id).length or 0 for ledger_id in ids]
    assert len(ids) - before == 3 + 4
    assert sum(lengths[-3:]) == 1001 * 100 + 3 * len(b"warm-up")
    assert found["entry_count"] == 1001
    assert 0 < found["ledger_entries_per_s_min"] <= found["ledger_entries_per_s_max"]


def test_appends_are_kept_outstanding_in_many_ledgers_without_a_thread_each(
    shell: Shell, cluster: LocalCluster
) -> None:
    shape = ("--api", "async", "--ledgers", "40", "--outstanding", "3")
    found = written(shell, cluster, "--count", "2003", *shape)

    assert found["entry_count"] == 2003
    assert found["ledger_count"] == 40
    assert found["latency_count"] == 2003, "each append is timed"
    assert 0 < found["latency_p50_ms"] <= found["latency_p99_ms"]


def test_a_load_that_rolls_leaves_one_ledger(shell: Shell, cluster: LocalCluster) -> None:
    with zbk.connect(cluster.metadata_uri) as client:
        before = set(client.list_ledgers())

        found = written(shell, cluster, "--count", "1000", "--batch", "70", "--roll", "300")

        left = set(client.list_ledgers()) - before
        with client.open_ledger(found["ledger_id"]) as reader:
            assert reader.last_add_confirmed == 100 - 1
    assert left == {found["ledger_id"]}
    assert found["entry_count"] == 1000


def test_a_table_ends_with_the_histogram(shell: Shell, cluster: LocalCluster) -> None:
    done = shell.run("bench", "write", "--metadata", cluster.metadata_uri, "--count", "100")

    lines = done.stdout.decode().splitlines()
    assert lines[-1].endswith("100.00 %")
    assert not any(line.startswith("histogram") for line in lines)
    assert done.stderr == b""  # no terminal: no live line


@pytest.mark.parametrize("neighbor_client", ["same", "other"])
def test_a_neighbor_is_written_as_long_as_the_load(
    shell: Shell, cluster: LocalCluster, neighbor_client: str
) -> None:
    neighbor = ("--neighbor", "pd", "--neighbor-client", neighbor_client)
    with zbk.connect(cluster.metadata_uri) as client:
        before = set(client.list_ledgers())
        found = written(shell, cluster, "--type", "vd", "--count", "10000", *neighbor)
        new = set(client.list_ledgers()) - before
        types = [client.open_ledger(one).metadata.ledger_type for one in new]

    assert found["entry_count"] == 10000
    assert sorted(types) == ["PD_JOURNAL", "VD_JOURNAL"]
    assert found["neighbor_type"] == "PD_JOURNAL"
    assert found["has_own_neighbor_client"] is (neighbor_client == "other")
    assert 0 < found["neighbor_latency_p50_ms"] <= found["neighbor_latency_max_ms"]


@pytest.fixture
def slow_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    slow = slow_programs(0, 60)
    with LocalCluster(tmp_path / "slow", bookie_count=1, bookie_programs=slow) as running:
        yield running


def test_an_append_to_a_slow_bookie_takes_as_much_longer(slow_cluster: LocalCluster) -> None:
    with (
        zbk.connect(slow_cluster.metadata_uri) as client,
        client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1
        ) as ledger,
    ):  # fmt: skip
        started_s = monotonic_s()
        for _ in range(3):
            ledger.append(b"slowly")

        assert monotonic_s() - started_s >= 3 * 0.06


def test_the_floor_takes_lone_entries_and_probes_fsyncs_of_them(shell: Shell) -> None:
    floor, probe = told(shell, "floor", "--api", "sync", "--count", "50", "--fsync-probe")

    assert floor["batch_entry_count"] == 1
    assert floor["latency_count"] == floor["entry_count"] == 50
    assert 0 < floor["latency_p50_ms"] <= floor["latency_p99_ms"]
    assert 0 < probe["fsync_entry_p50_ms"] <= probe["fsync_entry_p99_ms"]
    assert probe["fsync_4_kib_p50_ms"] > 0


def test_a_vd_append_does_not_wait_for_the_fsync_of_a_lone_pd_append(
    slow_cluster: LocalCluster,
) -> None:
    seconds = []
    with ExitStack() as exits:
        client = exits.enter_context(zbk.connect(slow_cluster.metadata_uri))
        vd, pd = (
            exits.enter_context(
                client.create_ledger(
                    ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, ledger_type=kind
                )
            )
            for kind in ("VD_JOURNAL", "PD_JOURNAL")
        )
        vd.append(b"connected")
        for _ in range(9):  # two may be late on a busy machine
            synced = pd.append_async(b"waits for an fsync")
            started_s = monotonic_s()
            vd.append(b"does not")
            seconds.append(monotonic_s() - started_s)
            synced.result(20)

    assert sorted(seconds)[6] < 0.06
