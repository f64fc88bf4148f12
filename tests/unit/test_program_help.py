"""The programs of this repository outside of the package: ``--help`` explains, and runs nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHILDREN = {
    "benchmarks.experiments.dying_writer",
    "benchmarks.peers.streams",
    "tests.chaos.client",
}
"""Programs that another one starts, with arguments of its own."""


def programs() -> list[str]:
    found = []
    for folder in ("benchmarks", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            is_of_tests = "unit" in path.parts or "integration" in path.parts
            if is_of_tests or "support" in path.parts:
                continue
            if "\nif __name__ ==" in path.read_text():
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                found.append(name.removesuffix(".__main__"))
    return found


def test_the_children_are_programs() -> None:
    assert set(programs()) > CHILDREN


@pytest.mark.parametrize("name", [one for one in programs() if one not in CHILDREN])
def test_help_explains_and_runs_nothing(name: str) -> None:
    command = [sys.executable, "-m", name, "--help"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.lower().startswith("usage:")
