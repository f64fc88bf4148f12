"""The experiment with deleted ledgers on a small load."""

from pathlib import Path

import pytest

from tests.support.experiment import run_experiment

COUNT = 6


@pytest.mark.parametrize(("kind", "is_freed"), [("vd-bypass", True), ("vd", False)])
def test_one_round_returns_the_space_of_own_logs_and_copies_nothing(
    tmp_path: Path, kind: str, is_freed: bool
) -> None:
    found = run_experiment(
        tmp_path, "deletion", "--ledgers", str(COUNT), "--size", "256KiB", "--type", kind
    )  # fmt: skip

    assert found["log_size_before"] > 3 * COUNT * 256 * 1024
    assert found["copied_size"] == 0
    if is_freed:
        assert found["log_size_left"] == 0
        assert found["removed_log_count"] >= 3 * COUNT
    else:
        assert found["log_size_left"] == found["log_size_before"], "one shared log, still written"
