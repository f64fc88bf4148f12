"""The experiments recovery and restart on little: their figures, not how good they are."""

import json
from pathlib import Path

from tests.support.cluster import Shell

EXPERIMENTS = "benchmarks.experiments"


def test_the_ledger_of_a_writer_that_was_killed_is_recovered_with_all_it_acknowledged(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})

    done = shell.run(
        "recovery", "--count", "3000", "--outstanding", "200", "-o", "json", module=EXPERIMENTS
    )

    found = json.loads(done.stdout)
    assert found["measured"] == "recovery"
    assert found["acknowledged_count"] == 3000  # the bookies were held: none of the 200 is
    assert 3000 <= found["entry_count"] <= 3200
    assert found["recovered_last_entry_id"] == found["entry_count"] - 1
    assert 0 < found["seconds"] < found["seconds_with_connect"]
    assert list(tmp_path.glob("zbk-bench-*")) == []


def test_more_adds_than_a_writer_may_have_on_their_way_are_refused(tmp_path: Path) -> None:
    done = Shell(tmp_path, {"TMPDIR": str(tmp_path)}).run(
        "recovery", "--size", "65536", "--outstanding", "1000", exit_code=1, module=EXPERIMENTS
    )

    assert b"a writer's window" in done.stderr
    assert list(tmp_path.glob("zbk-bench-*")) == []


def test_a_bookie_that_was_killed_serves_its_last_entry_after_its_restart(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})

    done = shell.run(
        "restart", "--journal", "1MiB", "--size", "1024", "-o", "json", module=EXPERIMENTS
    )

    found = json.loads(done.stdout)
    assert found["measured"] == "restart"
    assert found["journal_size"] >= 1024 * 1024
    assert found["replayed_entry_count"] >= 1024
    assert found["seconds_until_registered"] > 0
    assert found["seconds_until_read"] > 0
    assert list(tmp_path.glob("zbk-bench-*")) == []
