"""The long mixed run (``make soak-mixed``), for a few seconds: it works, and keeps its promises."""

from pathlib import Path

from tests.soak.mixed.campaign import Settings, run
from tests.soak.mixed.payloads import MIB
from tests.soak.mixed.report import markdown
from tests.support.machine import patient_s


def test_a_short_mixed_run_passes(tmp_path: Path) -> None:
    lines: list[str] = []

    report = run(
        Settings(
            seed=7,
            seconds=patient_s(8.0),
            is_sqlite=True,
            rate_size=2 * MIB,
            live_size_max=12 * MIB,
            kill_interval_s=3.0,
            sample_interval_s=1.0,
        ),
        tmp_path / "cluster",
        lines.append,
    )

    assert report.violations == [], lines
    assert report.failures == [], markdown(report)
    assert report.counts.deleted_count > 0
    assert report.counts.kill_count > 0
    assert report.counts.read_count > 0
    by_type = report.counts.by_type.values()
    assert sum(one.read_count for one in by_type) == report.counts.read_count
    assert sum(one.ledger_count for one in by_type) == report.counts.ledger_count
    assert report.counts.scrub_count >= 3
    assert len(report.samples) >= 5
