"""The experiment repair on a bookie with little data: its figures, not how good they are."""

import json
from pathlib import Path

from tests.support.cluster import Shell

EXPERIMENTS = "benchmarks.experiments"


def test_the_repair_of_a_small_bookie_is_measured_and_every_copy_verified(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})

    done = shell.run(
        *("repair", "--held", "1MiB", "--ledgers", "4", "--writer", "300ms", "-o", "json"),
        module=EXPERIMENTS,
    )

    found = json.loads(done.stdout)
    assert found["repaired_ledger_count"] > 0
    assert found["repaired_size"] > 0
    assert found["verified_entry_count"] == 2 * found["repaired_size"] // 1024
    assert found["repaired_mb_per_s"] > 0
    assert found["writer_mb_per_s_before"] > 0
    assert found["writer_mb_per_s_during"] > 0
    assert list(tmp_path.glob("zbk-bench-*")) == []
