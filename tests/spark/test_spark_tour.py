"""The handbook's page on Spark, line by line, as a stranger would type it."""

from pathlib import Path

import pytest

from tests.docs.test_pages import WITH_SPARK
from tests.support.document import (
    ROOT,
    Started,
    blocks_of,
    environment,
    home,
    run_block,
    servers,
    start_and_wait_ready,
)
from tests.support.machine import patient_s
from tests.support.spark import QUICK_JAVA, QUICK_SETTINGS

__all__ = ["environment", "home", "servers"]  # fixtures

BLOCK_TIMEOUT_S = patient_s(240.0)  # a Spark is started in each


@pytest.fixture
def quick(home: Path, environment: dict[str, str], quick_python: Path) -> dict[str, str]:
    """The environment of a machine whose Spark is set up for small queries."""
    folder = home / "spark-conf"
    folder.mkdir()
    lines = [f"{name} {value}\n" for name, value in QUICK_SETTINGS.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    python = {"PYSPARK_PYTHON": str(quick_python), "PYSPARK_DRIVER_PYTHON": str(quick_python)}
    java = {"SPARK_CONF_DIR": str(folder), "SPARK_SUBMIT_OPTS": QUICK_JAVA}
    return environment | python | java


@pytest.mark.timeout(patient_s(600))
def test_every_command_of_the_page_runs(
    home: Path, quick: dict[str, str], servers: list[Started]
) -> None:
    (home / "zbk" / "spark").symlink_to(ROOT / "spark")
    up, load, program, tidy = blocks_of(WITH_SPARK.read_text())
    servers.append(start_and_wait_ready(up.text, home, quick))

    loaded = run_block(load, home, quick, BLOCK_TIMEOUT_S)
    told = run_block(program, home, quick, BLOCK_TIMEOUT_S)
    tidied = run_block(tidy, home, quick)

    assert "row count     3" in loaded
    assert "now: 1\n" in told
    assert "before: 3\n" in told
    assert "overwrite" in tidied
