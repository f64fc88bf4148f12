"""`zbk bookie gc`: a round, with a compaction in it if that is asked for."""

import json

import pytest

from tests.support.cli import Run
from zbk.cli.output import size_text


@pytest.mark.parametrize(("flag", "log_count"), [(None, 0), ("--minor", 1), ("--major", 3)])
def test_what_was_compacted_is_told(run: Run, flag: str | None, log_count: int) -> None:
    arguments = ["bookie", "gc", "bookie-a", *([flag] if flag else [])]

    told = json.loads(run(*arguments, "-o", "json").stdout)
    shown = run(*arguments).stdout

    assert told["compaction"] == (flag or "").lstrip("-")
    assert told["compacted_logs"] == log_count
    assert told["compacted_size"] == 1_000 * log_count
    assert told["compaction_gave_up"] == ""
    assert f"compacted logs      {log_count}" in shown
    assert f"compacted size      {size_text(1_000 * log_count)}" in shown


def test_the_last_of_both_flags_counts(run: Run) -> None:
    told = json.loads(run("bookie", "gc", "b", "--minor", "--major", "-o", "json").stdout)
    assert told["compaction"] == "major"


def test_the_help_says_what_it_costs(run: Run) -> None:
    told = " ".join(run("bookie", "gc", "--help").stdout.split())
    assert "--minor" in told
    assert "--major" in told
    assert "`zbk bookie show` shows how much space it would free" in told


def test_show_tells_what_compaction_would_win_and_has_won(run: Run) -> None:
    shown = json.loads(run("bookie", "show", "bookie-a", "-o", "json").stdout)
    for name in ("minor_win", "major_win", "compacted"):
        assert shown[f"{name}_size"] == shown[f"{name}_log_count"] == 7
    assert "major win size" in run("bookie", "show", "bookie-a").stdout
