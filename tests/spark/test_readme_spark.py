"""The README's section on Spark, line by line, as a stranger would type it."""

import subprocess
from pathlib import Path

import pytest

from tests.integration import test_readme as tour
from tests.integration.test_readme import ROOT, ends_with_the_test, environment, home
from tests.support.machine import patient_s
from tests.support.spark import QUICK_JAVA, QUICK_SETTINGS

__all__ = ["ends_with_the_test", "environment", "home"]  # fixtures

SECTION = "## With Spark"
BLOCK_TIMEOUT_S = patient_s(240.0)  # a Spark is started in each


@pytest.fixture
def quick(home: Path, environment: dict[str, str]) -> dict[str, str]:
    """The environment of a machine whose Spark is set up for small queries."""
    folder = home / "spark-conf"
    folder.mkdir()
    lines = [f"{name} {value}\n" for name, value in QUICK_SETTINGS.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return environment | {"SPARK_CONF_DIR": str(folder), "SPARK_SUBMIT_OPTS": QUICK_JAVA}


@pytest.mark.timeout(patient_s(600))
def test_every_command_of_the_section_on_spark_runs(
    home: Path, quick: dict[str, str], ends_with_the_test: list["subprocess.Popen[str]"]
) -> None:
    (home / "zbk" / "spark").symlink_to(ROOT / "spark")
    (home / "zbk" / "lines.txt").write_text("one\ntwo\nthree\n")  # the tour has made it
    ends_with_the_test.append(tour.start_and_wait_ready("zbk up", home, quick))
    load, program, tidy = tour.blocks(SECTION)

    loaded = tour.run_block(*load, home, quick, BLOCK_TIMEOUT_S)
    told = tour.run_block(*program, home, quick, BLOCK_TIMEOUT_S)
    tidied = tour.run_block(*tidy, home, quick)

    assert "row count     3" in loaded
    assert "now: 1\n" in told
    assert "before: 3\n" in told
    assert "overwrite" in tidied
