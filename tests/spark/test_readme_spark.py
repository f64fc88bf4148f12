"""The README's section on Spark, line by line, as a stranger would type it."""

import subprocess
from pathlib import Path

import pytest

from tests.integration import test_readme as tour
from tests.integration.test_readme import ROOT, ends_with_the_test, environment, home
from tests.support.machine import patient_s

__all__ = ["ends_with_the_test", "environment", "home"]  # fixtures

SECTION = "## With Spark"
BLOCK_TIMEOUT_S = patient_s(240.0)  # a Spark is started in each


@pytest.mark.timeout(600)
def test_every_command_of_the_section_on_spark_runs(
    home: Path, environment: dict[str, str], ends_with_the_test: list["subprocess.Popen[str]"]
) -> None:
    (home / "zbk" / "spark").symlink_to(ROOT / "spark")
    (home / "zbk" / "lines.txt").write_text("one\ntwo\nthree\n")  # the tour has made it
    ends_with_the_test.append(tour.start_and_wait_ready("zbk up", home, environment))
    load, program, tidy = tour.blocks(SECTION)

    loaded = tour.run_block(*load, home, environment, BLOCK_TIMEOUT_S)
    told = tour.run_block(*program, home, environment, BLOCK_TIMEOUT_S)
    tidied = tour.run_block(*tidy, home, environment)

    assert "row count     3" in loaded
    assert "now: 1\n" in told
    assert "before: 3\n" in told
    assert "overwrite" in tidied
