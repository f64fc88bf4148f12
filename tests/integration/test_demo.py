"""`zbk demo`, on small inputs: with the real one it takes its minute."""

import json
import re
from pathlib import Path

import pytest

from tests.support.cluster import Shell
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.metadata.stores.connect import open_store

CONTENT = b"".join(b"entry %d of the input\n" % number for number in range(30_000)) + b"\n\nend"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "input").write_bytes(CONTENT)
    return Shell(tmp_path, {"TMPDIR": str(tmp_path)})


def test_the_demo_ends_with_everything_the_same(shell: Shell) -> None:
    done = shell.run("demo", "input")

    text = done.stdout.decode()
    assert done.stderr == b""
    assert text.count("the same") == 15
    assert re.search(r"ledgers to repair: [1-9]", text)
    assert re.search(r"ledgers to repair: 0\n +all \d+ have all of their copies again", text)
    assert re.search(r"5  Crash: kill -9 of bookie \d", text)
    for ledger_type in ("PD", "VD"):
        name = rf"{ledger_type}_JOURNAL ledger \d+"
        assert re.search(rf"{name}: another bookie took its place after \d+ ms", text)
    shown = re.findall(r"entries [\d,]+ to [\d,]+ are on bookies (.+)", text)
    old, new = shown[:2]  # of the PD ledger
    (dead,) = set(old.split()) - set(new.split())
    assert dead not in shown[-1].split(), "the VD ledger has left it, too"
    assert "was fenced: another client is recovering or has closed it" in text
    assert re.search(r"All [\d,]+ entries read back are what was written.", text)
    assert not list(shell.home.glob("zbk-demo-*")), "the folder is removed"


def test_the_demo_runs_on_a_real_zookeeper_and_has_its_figures_in_json(shell: Shell) -> None:
    report = json.loads(shell.run("demo", "input", "--zookeeper", "-o", "json").stdout)

    assert report["is_same"] is True
    steps = report["steps"]
    names = [step["step"] for step in steps]
    assert names == [
        "ClusterStarted", "InputRead", "LedgerLoaded",
        *["LedgerLoaded", "LedgerSynced"] * 2,
        "BookieKilled", "BookieRestarted", *["ReadBack"] * 9,
        "KilledWhileWriting", *["BookieReplaced", "Compared"] * 2, "TakenOver", "Compared",
        "LostForGood", *["QueueLength"] * names.count("QueueLength"), "MadeWhole", "SecondLost",
        *["ReadBack"] * 3,
    ]  # fmt: skip
    queue = [step["task_count"] for step in steps if step["step"] == "QueueLength"]
    assert max(queue) > 0
    assert queue[-1] == 0
    assert steps[0]["metadata"].startswith("zk://127.0.0.1:")
    loads = [step for step in steps if step["step"] == "LedgerLoaded"]
    assert {load["entry_count"] for load in loads} == {30_003}
    assert all(load["batch_latency"]["p99_ms"] > 0 for load in loads)
    for synced in (step for step in steps if step["step"] == "LedgerSynced"):
        assert synced["lac_after"] == synced["lap"] == 30_002
    assert len({step["hash"] for step in steps if "hash" in step}) == 1
    taken = next(step for step in steps if step["step"] == "TakenOver")
    compared = [step for step in steps if step["step"] == "Compared"]
    assert compared[-1]["entry_count"] == taken["entry_count"] >= taken["acknowledged_count"] > 0


def test_an_empty_input_in_a_zookeeper_that_is_there_leaves_nothing_behind(shell: Shell) -> None:
    (shell.home / "empty").write_bytes(b"")
    with LocalZooKeeper(shell.home / "zookeeper") as zookeeper:
        shell.environment["ZBK_METADATA"] = zookeeper.uri("/zbk")

        report = json.loads(shell.run("demo", "empty", "--zookeeper", "-o", "json").stdout)

        assert report["is_same"] is True
        assert report["steps"][0]["metadata"].startswith(f"{zookeeper.uri('/zbk')}/demo-")
        store = open_store(zookeeper.uri("/zbk"))
        try:
            assert store.children("/") == []
        finally:
            store.close()


def test_another_cluster_of_one_host_is_left_alone(shell: Shell) -> None:
    shell.environment["ZBK_METADATA"] = "sqlite:///somewhere/metadata.db"

    refused = shell.run("demo", "input", exit_code=1)

    assert b"unset ZBK_METADATA" in refused.stderr
    assert not list(shell.home.glob("zbk-demo-*"))


def test_what_can_be_read_only_once_is_refused(shell: Shell) -> None:
    refused = shell.run("demo", "/dev/null", exit_code=1)

    assert b"no regular file" in refused.stderr
