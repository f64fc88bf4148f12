"""The jobs in spark/jobs, as whoever starts them sees them."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import pytest
from pyspark.sql import SparkSession

import zbk
from jobs.bulk_load import bulk_load
from jobs.export import export
from jobs.verify import verify
from pyspark_zbk.job import main
from tests.support.machine import patient_s
from zbk.cluster.local import LocalCluster

ROOT = Path(__file__).parents[2]
ROW_COUNT = 500
SUBMIT_TIMEOUT_S = patient_s(240.0)

Run = Callable[..., Any]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """One table in each format, as ``rows.*``."""
    rows = [(n, f"name {n}" if n % 7 else None, n / 4) for n in range(ROW_COUNT)]
    write_csv(tmp_path / "rows.csv", rows)
    lines = [json.dumps({"id": n, "name": name, "value": value}) for n, name, value in rows]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    (tmp_path / "rows.log").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.fixture
def name() -> str:
    return f"jobs-{uuid4().hex}"


@pytest.fixture
def run(
    spark: SparkSession, cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Run a job in this process and session; return its summary, or what it said in the end."""
    del spark  # a job uses the session that is there

    def run(command: click.Command, *arguments: object, exit_code: int = 0) -> Any:  # noqa: ANN401 - JSON
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        options = ["--metadata", cluster.metadata_uri, "--json", str(report)]
        with pytest.raises(SystemExit) as end:
            main(command, [*map(str, arguments), *options])
        said = capsys.readouterr().err
        assert end.value.code == exit_code, said
        assert "Traceback" not in said
        return json.loads(report.read_text()) if report.exists() else said.splitlines()[-1]

    return run


def write_csv(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "value"])
        writer.writerows(rows)


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl", "rows.log"])
def test_what_is_loaded_is_the_same_as_its_source(
    run: Run, files: Path, name: str, file: str
) -> None:
    loaded = run(bulk_load, files / file, name, "--partitions", 3)

    assert loaded["version"] == 1
    assert (loaded["row_count"], loaded["ledger_count"]) == (ROW_COUNT, 3)
    verified = run(verify, name, "--source", files / file)
    assert verified["is_same"] is True
    assert verified["row_count"] == verified["other_row_count"] == ROW_COUNT
    assert verified["hash"] == verified["other_hash"]


def test_rows_of_a_known_size_are_counted(run: Run, files: Path, name: str) -> None:
    loaded = run(bulk_load, files / "rows.csv", name, "--partitions", 1, "--row-size-max", "1k")

    assert loaded["row_count"] == ROW_COUNT
    assert run(verify, name, "--source", files / "rows.csv")["is_same"] is True


def test_versions_are_exported_to_parquet_loaded_again_and_compared(
    run: Run, files: Path, name: str, cluster: LocalCluster
) -> None:
    write_csv(files / "few.csv", [(1, "one", 0.25), (2000, "new", 1.0)])
    run(bulk_load, files / "rows.csv", name, "--ledger-type", "pd_journal", "--entry-bytes", "16k")
    replaced = run(bulk_load, files / "few.csv", name, "--mode", "overwrite")
    assert (replaced["version"], replaced["row_count"]) == (2, 2)

    exported = run(export, name, files / "out", "--version", 1)
    assert (exported["version"], exported["row_count"]) == (1, ROW_COUNT)
    assert run(verify, name, "--source", files / "out", "--version", 1)["is_same"] is True

    appended = run(bulk_load, files / "out", name)
    assert (appended["version"], appended["row_count"]) == (3, ROW_COUNT)
    differing = run(verify, name, "--against", 1, exit_code=1)
    assert (differing["row_count"], differing["other_row_count"]) == (ROW_COUNT + 2, ROW_COUNT)
    assert (differing["only_in_data_set_count"], differing["only_in_other_count"]) == (2, 0)
    assert any('"name":"new"' in row for row in differing["only_in_data_set"])
    with zbk.connect(cluster.metadata_uri) as client:
        first = zbk.DataSets(client).read(name, 1).ledgers[0]
        metadata = client.get_ledger_metadata(first.ledger_id)
    assert not metadata.ledger_type.is_volatile
    assert first.entry_count > 1


def test_other_columns_are_a_difference_that_costs_no_reading(
    run: Run, files: Path, name: str
) -> None:
    run(bulk_load, files / "rows.csv", name)

    found = run(
        verify, name, "--source", files / "rows.csv", "--schema", "id int, name string, value int",
        exit_code=1,
    )  # fmt: skip

    assert (found["columns"], found["other_columns"]) == (["value double"], ["value int"])


def test_mistakes_are_told_in_a_line_and_leave_nothing(
    run: Run, files: Path, name: str, cluster: LocalCluster
) -> None:
    there = files / "rows.csv"

    assert "no such file or folder" in run(bulk_load, files / "nowhere", name, exit_code=1)
    assert "Path does not exist" in run(bulk_load, files / "nowhere.csv", name, exit_code=1)
    needs = run(bulk_load, there, name, "--ensemble-size", 9, exit_code=3)
    assert needs.startswith("bulk_load: need 9 bookies, have 3")
    assert "must be between" in run(bulk_load, there, name, "--entry-bytes", 7, exit_code=1)
    for size in ("big", "", "0"):
        assert "row-size-max" in run(bulk_load, there, name, "--row-size-max", size, exit_code=1)
    assert "no data set" in run(verify, name, "--source", there, exit_code=1)
    assert "no data set" in run(export, name, files / "out", exit_code=1)
    assert "--source or --against" in run(verify, name, exit_code=2)
    assert "KEY=VALUE" in run(bulk_load, there, name, "--read-option", "header", exit_code=2)
    with zbk.connect(cluster.metadata_uri) as client:
        assert name not in zbk.DataSets(client).list()


def test_a_folder_that_is_there_is_not_written_over(run: Run, files: Path, name: str) -> None:
    run(bulk_load, files / "rows.csv", name)
    (files / "out").mkdir()

    assert "already exists" in run(export, name, files / "out", exit_code=1)


def test_a_cluster_that_is_not_there_is_told_in_a_line(
    spark: SparkSession, files: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark
    metadata = f"sqlite://{files}/nowhere/metadata.db"

    with pytest.raises(SystemExit) as end:
        main(bulk_load, [str(files / "rows.csv"), name, "--metadata", metadata])

    assert end.value.code in (1, 3)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.soak
def test_a_job_runs_by_spark_submit(cluster: LocalCluster, files: Path, name: str) -> None:
    submit = shutil.which("spark-submit", path=str(Path(sys.executable).parent))
    assert submit is not None, "pyspark brings it"
    report = files / "report.json"

    done = subprocess.run(
        [
            submit, "--master", "local[1]", str(ROOT / "spark" / "jobs" / "bulk_load.py"),
            str(files / "rows.csv"), name, "--json", str(report),
        ],
        env=os.environ | {"ZBK_METADATA": cluster.metadata_uri, "PYSPARK_PYTHON": sys.executable},
        cwd=files,
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(report.read_text())["row_count"] == ROW_COUNT


@pytest.mark.parametrize("job", ["bulk_load", "export", "verify"])
def test_help_needs_no_spark(job: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "spark" / "jobs" / f"{job}.py"), "--help"],
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
        check=True,
    )

    assert "--metadata URI" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("job", ["bulk_load", "verify"])
def test_a_file_that_is_not_there_is_told_before_a_java_is_started(
    tmp_path: Path, job: str
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    java.chmod(0o755)
    arguments = {
        "bulk_load": ["/nope.csv", "events"],
        "verify": ["events", "--source", "/nope.csv"],
    }[job]
    environment = {**os.environ, "JAVA_HOME": str(java.parents[1]), "ZBK_METADATA": "sqlite:///no"}

    done = subprocess.run(
        [sys.executable, str(ROOT / "spark" / "jobs" / f"{job}.py"), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 1
    assert "/nope.csv: there is no such file or folder" in done.stderr.replace("'", "")
    assert not (tmp_path / "started").exists()
