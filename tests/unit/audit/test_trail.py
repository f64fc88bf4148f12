"""The audit log of a process: its lines, its limits, and what a failure does."""

import json
import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from zbk.audit.pace import DONE, REFUSED, REFUSED_BY_SOURCE, AuditPace
from zbk.audit.record import TEXT_SIZE_MAX, AuditRecord, line_of
from zbk.audit.trail import AuditCounts, AuditTrail, open_trail
from zbk.config import NO_SECURITY, SecurityConfig
from zbk.errors import InvalidOptionError
from zbk.system.rotated_file import RotatedFile

FENCE = AuditRecord(action="fence", outcome="done", principal="alice", ledger_id=7)


def refused(address: str) -> AuditRecord:
    return AuditRecord(action="authenticate", outcome="refused", address=address)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_line_has_the_fields_that_apply() -> None:
    assert json.loads(line_of(FENCE, "bookie b-1", 1_000)) == {
        "time": "1970-01-01T00:00:01.000Z",
        "process": "bookie b-1",
        "action": "fence",
        "outcome": "done",
        "principal": "alice",
        "ledger_id": 7,
    }


def test_a_text_from_outside_is_one_line_and_bounded() -> None:
    line = line_of(refused("\udcff\n" + "x" * 10_000), "bookie", 0)
    assert line.count(b"\n") == 1
    assert len(json.loads(line)["address"]) == TEXT_SIZE_MAX


def test_one_source_does_not_silence_another() -> None:
    pace = AuditPace(0)
    flood = sum(pace.admits(refused(f"10.0.0.7:{port}"), 0) for port in range(5_000))
    assert flood == REFUSED_BY_SOURCE.burst
    assert pace.admits(refused("10.0.0.8:1"), 0)
    assert pace.admits(FENCE, 0)


def test_all_sources_together_have_a_rate() -> None:
    pace = AuditPace(0)
    written = sum(pace.admits(refused(f"10.0.{n >> 8}.{n & 255}:1"), 0) for n in range(60_000))
    assert written == REFUSED.burst
    assert sum(pace.admits(FENCE, 0) for _ in range(10_000)) == DONE.burst
    assert pace.admits(FENCE, 1_000)


def test_what_was_suppressed_is_counted_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    trail = AuditTrail(RotatedFile(path, 1 << 20, 2), "bookie b-1")
    for _ in range(1_000):
        trail.note(refused("10.0.0.7:1"))
    trail.note(FENCE)
    trail.close()
    found = lines_of(path)
    assert [one["action"] for one in found].count("authenticate") == trail.counts.written - 1 - sum(
        one["action"] == "audit" for one in found
    )
    assert sum(one.get("count", 0) for one in found) == trail.counts.suppressed
    assert trail.counts.suppressed + trail.counts.written >= 1_001
    assert "fence" in [one["action"] for one in found]


def test_a_failure_is_logged_and_counted_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trail = AuditTrail(RotatedFile(tmp_path / "gone/audit", 1 << 20, 2), "bookie")
    with caplog.at_level(logging.ERROR, "zbk.audit"):
        trail.note(FENCE)
        trail.close()
    assert trail.counts.lost == 1
    assert [getattr(one, "event", "") for one in caplog.records] == ["audit.write_failed"]
    trail.note(FENCE)
    assert trail.counts.lost == 2


def test_a_file_that_cannot_be_used_is_an_error_at_the_start(tmp_path: Path) -> None:
    assert open_trail(NO_SECURITY, "bookie") is None
    with pytest.raises(InvalidOptionError, match="audit_log"):
        open_trail(SecurityConfig(audit_log=str(tmp_path / "gone/audit")), "bookie")


def test_two_trails_of_a_process_lose_no_count(tmp_path: Path) -> None:
    """The bookie and its admin API count together, each in threads of its own."""
    counts, each = AuditCounts(), 20_000
    trails = [
        AuditTrail(RotatedFile(tmp_path / name, 1 << 30, 1), name, counts) for name in ("a", "b")
    ]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def flood(trail: AuditTrail) -> None:
        for _ in range(each):
            trail.note(FENCE)

    threads = [threading.Thread(target=flood, args=(one,)) for one in trails]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for trail in trails:
            trail.close()
    finally:
        sys.setswitchinterval(interval_s)
    about = sum(line["action"] == "audit" for path in tmp_path.iterdir() for line in lines_of(path))
    assert counts.written + counts.suppressed + counts.lost == 2 * each + about
