"""The experiment with deleted ledgers on a small load."""

import json
from pathlib import Path

import pytest

from tests.support.cluster import Shell

COUNT = 6


@pytest.mark.parametrize(("kind", "is_freed"), [("vd-bypass", True), ("vd", False)])
def test_one_round_returns_the_space_of_own_logs_and_copies_nothing(
    tmp_path: Path, kind: str, is_freed: bool
) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})

    done = shell.run(
        "deletion", "--ledgers", str(COUNT), "--size", "256KiB", "--type", kind, "-o", "json",
        module="benchmarks.experiments",
    )  # fmt: skip

    found = json.loads(done.stdout)
    assert found["log_size_before"] > 3 * COUNT * 256 * 1024
    assert found["copied_size"] == 0
    if is_freed:
        assert found["log_size_left"] == 0
        assert found["removed_log_count"] >= 3 * COUNT
    else:
        assert found["log_size_left"] == found["log_size_before"], "one shared log, still written"
    assert list(tmp_path.glob("zbk-bench-*")) == []
