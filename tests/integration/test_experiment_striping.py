"""The experiment with striped ledgers, on a small load; the limit on processor time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cpu_limit import GROUPS, limited_cpu, settings_of
from tests.support.experiment import run_experiment
from tests.support.machine import patient_s
from zbk.errors import InvalidOptionError

BUSY = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"


def test_both_shapes_of_both_types_are_measured(tmp_path: Path) -> None:
    found = run_experiment(tmp_path, "striping", "--rounds", "1", "--size", "1024")

    for kind in ("vd", "bypass"):
        narrow, wide = found[f"{kind}_narrow_mb_s"], found[f"{kind}_wide_mb_s"]
        assert narrow > 0
        assert found[f"{kind}_ratio"] == pytest.approx(wide / narrow, rel=0.01)


@pytest.mark.parametrize("percent", [2, 10])
def test_a_limited_process_gets_its_part_of_a_core_and_leaves_no_group(percent: int) -> None:
    parent, settings = settings_of(GROUPS, percent)
    if os.geteuid() or not (parent / "cgroup.procs").exists():
        pytest.skip("needs root and control groups with the cpu controller")
    before = set(parent.iterdir())
    hold = "import sys\nsys.stdin.read(1)\n"
    process = subprocess.Popen([sys.executable, "-c", hold + BUSY], stdin=subprocess.PIPE)
    with limited_cpu([process.pid], percent):
        (group,) = set(parent.iterdir()) - before
        for name, wanted in settings.items():
            assert (group / name).read_text().strip() == wanted
        process.communicate(b"x", timeout=patient_s(60))
        lines = (line.split() for line in (group / "cpu.stat").read_text().splitlines())
        throttled = int(dict(lines)["nr_throttled"])
    assert throttled >= 10, "0.2 s at a part of each period"
    assert set(parent.iterdir()) == before


def test_both_kinds_of_control_groups_get_the_same_limit(tmp_path: Path) -> None:
    files = {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "1500"}
    assert settings_of(tmp_path, 15) == (tmp_path / "cpu", files)
    (tmp_path / "cgroup.controllers").write_text("cpu")
    assert settings_of(tmp_path, 15) == (tmp_path, {"cpu.max": "1500 10000"})
    assert settings_of(tmp_path, 2) == (tmp_path, {"cpu.max": "1000 50000"}), "Linux refuses less"


def test_a_machine_without_control_groups_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidOptionError, match="--bookie-cpu") as caught,
        limited_cpu([1], 15, "--bookie-cpu", tmp_path / "none"),
    ):
        pytest.fail("nothing was limited")
    assert "needs root" in str(caught.value)
