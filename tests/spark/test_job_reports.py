"""The reports of jobs, without Spark: no failure to report makes a load look undone."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import click
import pytest

import zbk
from jobs.bulk_load import bulk_load
from pyspark_zbk.inputs import Source
from pyspark_zbk.job import Job, job_options, main


@pytest.mark.parametrize("place", ["nowhere/report.json", "folder", "file/report.json"])
def test_a_summary_that_cannot_be_written_is_refused_before_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    jobs: list[Job] = []

    @click.command("a_job")
    @job_options
    def a_job(job: Job) -> None:
        jobs.append(job)
        job.tell({"job": "a_job"})

    with pytest.raises(SystemExit) as end:
        main(a_job, ["--json", str(tmp_path / place)])

    assert end.value.code == 1
    assert "json=" in capsys.readouterr().err
    assert jobs == []


def test_a_load_that_cannot_be_looked_up_is_reported_as_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler repeats a job that fails, and an append would be there twice."""
    spark, frame = MagicMock(), MagicMock()

    @contextmanager
    def session(_job: Job, _name: str) -> Iterator[MagicMock]:
        yield spark

    def no_answer(_uri: str | None) -> zbk.Client:
        raise zbk.MetadataUnavailableError("zk://a", "no answer within 30 s")

    monkeypatch.setattr(Job, "spark", session)
    monkeypatch.setattr(Source, "frame", lambda _source, _spark: frame)
    monkeypatch.setattr(zbk, "connect", no_answer)
    (tmp_path / "rows.csv").write_text("id\n1\n")
    report = tmp_path / "report.json"

    with pytest.raises(SystemExit) as end:
        main(bulk_load, [str(tmp_path / "rows.csv"), "events", "--json", str(report)])

    frame.write.format().options().mode().save.assert_called_once_with("events")
    assert end.value.code == 0
    assert "no answer within 30 s" in capsys.readouterr().err
    assert json.loads(report.read_text())["data_set"] == "events"
