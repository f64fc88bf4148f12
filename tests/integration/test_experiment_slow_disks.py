"""The experiment with slow disks on a small load: its figures, not how good they are."""

from pathlib import Path

from tests.support.experiment import run_experiment


def test_a_slow_bookie_of_a_temporary_cluster_holds_a_backlog_back(tmp_path: Path) -> None:
    found = run_experiment(
        tmp_path, "write", "--count", "5000", "--size", "1024", "--slow-bookie", "40ms"
    )  # fmt: skip

    assert found["slow_bookie_ms"] == 40
    assert found["slow_bookie_backlog_size_max"] > 0
