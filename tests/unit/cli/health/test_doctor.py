"""``zbk doctor`` on this machine."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from zbk.metadata.records.instance import initialise
from zbk.metadata.stores.connect import open_store


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = open_store(uri)
    initialise(store)
    store.close()
    return uri


def test_it_names_what_is_wrong_and_the_exit_code_is_10(run: Run, uri: str, tmp_path: Path) -> None:
    directories = ("--journal-dir", str(tmp_path), "--ledger-dir", str(tmp_path / "gone"))

    result = run("doctor", "--metadata", uri, *directories)

    assert result.exit_code == 10
    assert result.stderr == ""
    assert f"problem: {tmp_path}/gone cannot be used" in result.stdout
    assert "FSYNC-P99" in result.stdout
    assert "Python 3." in result.stdout
    assert f"metadata     {uri}" in result.stdout


def test_json_has_the_facts_and_the_findings(run: Run, uri: str, tmp_path: Path) -> None:
    file = tmp_path / "zbk.toml"
    file.write_text(f'[bookie]\nmetadata = "{uri}"\njournal_dir = "{tmp_path}"\n')

    result = run("doctor", "--config", str(file), "-o", "json")

    shown = json.loads(result.stdout)
    problems = [one["kind"] for one in shown["findings"] if one["is_problem"]]
    assert (result.exit_code == 10) == bool(problems) == (not shown["is_healthy"])
    assert shown["directories"][0]["fsync_p99_ms"] >= shown["directories"][0]["fsync_p50_ms"]
    assert {one["name"] for one in shown["packages"]} >= {"click", "msgspec", "pyzmq"}
    assert shown["metadata_error"] == ""


def test_a_cluster_that_cannot_be_reached_is_a_problem(run: Run) -> None:
    result = run("doctor", "--metadata", "zk://127.0.0.1:1/zbk", "--timeout", "200ms")

    assert result.exit_code == 10
    assert "problem: the cluster cannot be reached" in result.stdout
    assert "problem: ZooKeeper server 127.0.0.1:1 gives no answer" in result.stdout


def test_without_a_cluster_the_machine_is_checked(run: Run) -> None:
    result = run("doctor", "--listen", "tcp://127.0.0.1:0")

    assert result.exit_code == 10
    assert "note: no cluster is configured" in result.stdout
    assert "cannot be listened on" in result.stdout


def test_a_stale_context_is_named_with_its_cure(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "zbk"
    folder.mkdir(parents=True)
    (folder / "context.toml").write_text(
        'metadata = "sqlite:///x"\ndata_dir = "/x"\npid = 1\nstarted_ticks = 0\n'
    )

    result = run("doctor")

    assert result.exit_code == 10
    assert "is gone" in result.stdout
