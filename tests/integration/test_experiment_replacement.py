"""The experiment with a bookie that is killed under a writer, on a small load."""

from pathlib import Path

import pytest

from benchmarks.experiments.replacement import longest_gap_ms
from tests.support.experiment import run_experiment


def test_the_stall_of_each_type_is_measured_until_another_bookie_has_joined(
    tmp_path: Path,
) -> None:
    found = run_experiment(tmp_path, "replacement", "--rounds", "1", "--size", "1KiB")

    for kind in ("pd", "vd"):
        (stall_ms,) = found[f"{kind}_stalls_ms"]
        assert found[f"{kind}_stall_ms"] == pytest.approx(stall_ms, abs=0.001)
        assert found[f"{kind}_usual_ms"] > 0
        assert found[f"{kind}_change_ms"] > 0
    assert found["stall_ratio"] > 0


def test_a_gap_has_the_ends_of_its_period_as_events() -> None:
    assert longest_gap_ms([], 1.0, 3.0) == 2000.0
    assert longest_gap_ms([0.5, 1.5, 2.75, 9.0], 1.0, 3.0) == 1250.0
    assert longest_gap_ms([1.5, 1.75], 1.0, 3.0) == 1250.0
