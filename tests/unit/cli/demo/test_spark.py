"""How `zbk demo spark` begins, and how it shows its story."""

import json
import sys

import pytest

from pyspark_zbk.demo_steps import (
    ClusterStarted,
    Compared,
    Dropped,
    FrameRead,
    LedgerSeen,
    LeftoverCollected,
    Loaded,
    LookedMeanwhile,
    SparkStarted,
    Step,
    Timed,
)
from tests.support.cli import Run
from zbk.cli.demo.spark import show

FAILED = LedgerSeen(3, 0, 0, "OPEN")
STORY: list[Step] = [
    ClusterStarted("sqlite:///x", 3, 0.5),
    SparkStarted("4.3.0", "local[2,4]", 6.0),
    FrameRead("every line of x", "struct<text:string>", 1_000, "ab" * 8, 1.0),
    LookedMeanwhile([FAILED], "data set 'lines' has no version yet", ""),
    Loaded(1, "append", 1_000, 50_000, 8, [FAILED], 2.0),
    Compared("version 1", 1_000, "ab" * 8, {"max(text)": "x\n" * 99}, 0.5, ""),
    LeftoverCollected([FAILED], 1, ""),
    Timed("VD_BYPASS_JOURNAL", 1_000, 100, 60_000, 1.0),
    Timed("PD_JOURNAL", 1_000, 100, 60_000, 2.0),
    Loaded(2, "overwrite", 100, 5_000, 8, [], 1.0),
    Compared("the last version", 100, "cd" * 8, {}, 0.5, ""),
]
END = Dropped(1, 9)


def test_a_story_that_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([*STORY, END], "table")

    captured = capsys.readouterr()
    assert captured.err == ""
    assert "meanwhile: ledger 3, OPEN, of partition 0, attempt 0" in captured.out
    assert "and yet a reader is told: data set 'lines' has no version yet" in captured.out
    assert "ledger 3 of partition 0, attempt 0, OPEN, is in no version" in captured.out
    assert "ledger 3 deleted" in captured.out
    assert captured.out.count("into ledgers of each type") == 1
    assert max(map(len, captured.out.splitlines())) <= 100
    assert "exactly once" in captured.out


@pytest.mark.parametrize(
    "bad",
    [
        Compared("version 1", 999, "ee" * 8, {}, 0.5, "count(*) is 999, the input has 1000"),
        LookedMeanwhile([], "", "a version is visible already"),
        LeftoverCollected([FAILED], 0, "some of them are still there"),
    ],
)
def test_a_story_that_does_not_end_well(bad: Step, capsys: pytest.CaptureFixture[str]) -> None:
    assert not show([*STORY, bad, END], "table")

    captured = capsys.readouterr()
    assert "exactly once" not in captured.out
    assert captured.err == "zbk: what was read back is NOT what was written\n"


def test_a_story_without_its_end_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not show(STORY, "json")

    assert json.loads(capsys.readouterr().out)["is_same"] is False


def test_a_story_in_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([*STORY, END], "json")

    report = json.loads(capsys.readouterr().out)
    assert report["is_same"] is True
    assert report["steps"][3]["step"] == "LookedMeanwhile"
    assert report["steps"][3]["ledgers"][0]["ledger_id"] == 3


def test_a_machine_without_spark_is_told_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed

    done = run("demo", "spark")

    assert done.exit_code == 1
    assert done.stderr == "zbk: pyarrow is not installed: pip install 'zbk[spark]'\n"


def test_demo_spark_is_a_story_of_its_own_wherever_the_word_stands(run: Run) -> None:
    assert "[FILE|DIR]" in run("demo", "spark", "--help").stdout
    assert "[FILE|DIR]" in run("demo", "--help", "spark").stdout
    assert "[FILE]" in run("demo", "--help").stdout
    assert "no-such" in run("demo", "spark", "no-such").stderr
