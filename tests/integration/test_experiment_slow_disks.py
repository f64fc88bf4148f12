"""The experiment with slow disks on a small load: its figures, not how good they are."""

import json
from pathlib import Path

from tests.support.cluster import Shell


def test_a_slow_bookie_of_a_temporary_cluster_holds_a_backlog_back(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})

    done = shell.run(
        "write", "--count", "5000", "--size", "1024", "--slow-bookie", "40ms", "-o", "json",
        module="benchmarks.experiments",
    )  # fmt: skip

    found = json.loads(done.stdout)
    assert found["slow_bookie_ms"] == 40
    assert found["slow_bookie_backlog_size_max"] > 0
    assert list(tmp_path.glob("zbk-bench-*")) == []
