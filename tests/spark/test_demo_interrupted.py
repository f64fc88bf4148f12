"""Ctrl-C in the middle of `zbk demo spark`. It starts its own Spark."""

import os
import signal
from pathlib import Path

from tests.support.cluster import Shell
from tests.support.spark import QUICK_JAVA


def test_ctrl_c_ends_it_in_a_line(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"SPARK_SUBMIT_OPTS": QUICK_JAVA})
    process = shell.start("demo", "spark", has_session=True)
    assert process.stdout is not None
    started = any(b"   Spark " in line for line in process.stdout)  # it computes a hash from now on

    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert started, said
    assert (process.returncode, said) == (130, b"zbk: interrupted\n")
