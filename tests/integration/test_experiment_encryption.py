"""The experiment with encryption on a small load: its figures, not how good they are."""

import json
from pathlib import Path

from tests.support.cluster import Shell


def test_appends_with_and_without_encryption_and_handshakes_are_measured(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})

    done = shell.run(
        "encryption", "--count", "2000", "--rounds", "2", "-o", "json",
        module="benchmarks.experiments",
    )  # fmt: skip

    found = json.loads(done.stdout)
    assert found["plain_entries_per_s"] > 0
    assert found["encrypted_entries_per_s"] > 0
    assert found["rate_ratio"] > 0
    assert found["cpu_ratio"] > 0
    assert found["handshakes_per_s"] > 0
    assert found["encrypted_p50_ms"] > 0
    assert list(tmp_path.glob("zbk-bench-*")) == []
