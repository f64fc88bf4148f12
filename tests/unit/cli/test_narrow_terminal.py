"""Tables in a terminal of 20 columns: lines are cut there, and do not wrap."""

import os
from pathlib import Path

import pytest

from tests.support.stream_trial import Trials

COLUMNS = 20


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZBK_")}
    kept.pop("COLUMNS", None)
    return kept | {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path), "NO_COLOR": "1"}


def test_lines_of_a_table_are_cut(environment: dict[str, str]) -> None:
    with Trials(environment) as trials:
        narrow = trials.run(["config", "show"], "narrow")
        whole = trials.run(["config", "show"], "plain")

    lines, whole_lines = narrow.output.splitlines(), whole.output.splitlines()
    assert len(lines) == len(whole_lines) > 50
    assert max(map(len, lines)) == COLUMNS
    for line, all_of_it in zip(lines, whole_lines, strict=True):
        is_cut = len(all_of_it) > COLUMNS
        assert line == (
            all_of_it[: COLUMNS - 1] + "\N{HORIZONTAL ELLIPSIS}" if is_cut else all_of_it
        )
    assert max(map(len, whole_lines)) > COLUMNS


def test_a_terminal_without_unicode_gets_another_mark(environment: dict[str, str]) -> None:
    ascii_only = environment | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    with Trials(ascii_only) as trials:
        narrow = trials.run(["config", "show"], "narrow")

    assert narrow.exit_code == 0
    assert max(map(len, narrow.output.splitlines())) == COLUMNS
