"""Which format files are of."""

from pathlib import Path

import pytest

import zbk
from pyspark_zbk.inputs import Source, format_of


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("a.csv", "csv"),
        ("s3a://bucket/a.TSV.gz", "csv"),
        ("/data/*.jsonl", "json"),
        ("day=1/part.ndjson.zst", "json"),
        ("table.parquet/", "parquet"),
    ],
)
def test_a_name_tells(path: str, known: str) -> None:
    assert format_of(path) == known


def test_a_file_with_another_name_is_text(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("x")

    assert format_of(str(tmp_path / "access.log")) == "text"


def test_a_folder_is_what_its_files_are_marks_and_hidden_ones_left_out(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "part-0.json").touch()
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.json.crc").touch()

    assert format_of(str(tmp_path)) == "json"


def test_what_names_do_not_tell_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(zbk.InvalidOptionError, match="holds no files"):
        format_of(str(tmp_path))
    with pytest.raises(zbk.InvalidOptionError, match="no such file or folder"):
        format_of(str(tmp_path / "nowhere"))
    with pytest.raises(zbk.InvalidOptionError, match="give one of csv"):
        format_of("s3a://bucket/day=1/")
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.json").touch()
    with pytest.raises(zbk.InvalidOptionError, match=r"several formats \(csv, json\)"):
        format_of(str(tmp_path))


def test_a_format_that_is_given_is_not_looked_for() -> None:
    assert Source(format="text").at("/nowhere").format == "text"
