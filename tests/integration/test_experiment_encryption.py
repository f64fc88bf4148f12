"""The experiment with encryption on a small load: its figures, not how good they are."""

from pathlib import Path

from tests.support.experiment import run_experiment


def test_appends_with_and_without_encryption_and_handshakes_are_measured(tmp_path: Path) -> None:
    load = ("--count", "2000", "--rounds", "2", "--lone", "20", "--handshakes", "20")
    found = run_experiment(tmp_path, "encryption", *load)

    assert found["plain_entries_per_s"] > 0
    assert found["encrypted_entries_per_s"] > 0
    assert found["rate_ratio"] > 0
    assert found["cpu_ratio"] > 0
    assert found["handshakes_per_s"] > 0
    assert found["encrypted_p50_ms"] > 0
