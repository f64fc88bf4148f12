"""The README's tour, line by line, as a stranger would type it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import patient_s

ROOT = Path(__file__).parents[2]
TOUR = "## Five minutes"
BLOCK_TIMEOUT_S = patient_s(60.0)

Block = tuple[str, str]  # language, text


def blocks(heading: str = TOUR) -> list[Block]:
    """Return the sh and python blocks of a section, by default of the tour, in order."""
    text = (ROOT / "README.md").read_text("utf-8")
    tour = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(sh|python)\n(.*?)^```$", tour, re.MULTILINE | re.DOTALL)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh home with a checkout in it, as far as the tour uses one."""
    checkout = tmp_path / "zbk"
    checkout.mkdir()
    (checkout / ".venv").symlink_to(sys.prefix)
    return tmp_path


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ZBK_", "XDG_", "VIRTUAL_"))}
    return kept | {"HOME": str(home), "TMPDIR": str(home), "NO_COLOR": "1"}


@pytest.fixture
def ends_with_the_test() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are stopped at the end, in order."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def test_every_command_of_the_tour_runs(
    home: Path, environment: dict[str, str], ends_with_the_test: list[subprocess.Popen[str]]
) -> None:
    activate, *rest = blocks()
    assert activate == ("sh", ". .venv/bin/activate\n")
    outputs: dict[str, str] = {}
    for language, text in rest:
        if text.startswith("zbk up"):
            ends_with_the_test.append(start_and_wait_ready(text, home, environment))
        else:
            outputs[text] = run_block(language, text, home, environment)

    assert ends_with_the_test, "the tour starts a cluster"
    assert "one\ntwo\nthree\n" in find(outputs, "cat 0 --lines")
    assert "99999\n100000\n" in find(outputs, "cat 1 --lines")
    assert "durable up to: 10000" in find(outputs, "import zbk")
    assert "0 b'a lone entry'" in find(outputs, "import zbk")
    assert "three\n4\n5\n6\n" in find(outputs, "log cat orders")
    assert "b'seven'" in find(outputs, "import zbk")
    repaired = find(outputs, "zbk bookie recover")
    assert "moved" in repaired
    assert re.search(r"is whole +yes", repaired)
    assert "what was written" in find(outputs, "zbk demo")


def test_the_tour_names_no_command_that_is_not_run() -> None:
    """Text that looks like a command stands in a block that the test above runs, or in none."""
    text = (ROOT / "README.md").read_text("utf-8")
    tour = text.partition(f"\n{TOUR}\n")[2].partition("\n## ")[0]

    assert tour.count("```") == 2 * len(blocks())


def run_block(
    language: str,
    text: str,
    home: Path,
    environment: dict[str, str],
    timeout_s: float = BLOCK_TIMEOUT_S,
) -> str:
    shell = text if language == "sh" else f"python - <<'END'\n{text}END\n"
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", f". .venv/bin/activate\n{shell}"],
        cwd=home / "zbk",
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def start_and_wait_ready(
    text: str, home: Path, environment: dict[str, str]
) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        ["/bin/bash", "-euc", f". .venv/bin/activate\nexec {text}"],
        cwd=home / "zbk",
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("READY"):
            return process
    process.stdout.close()
    process.wait()
    raise AssertionError("zbk up ended before it was ready")


def find(outputs: dict[str, str], part: str) -> str:
    """Return what the one block that has ``part`` in it printed."""
    (found,) = [output for text, output in outputs.items() if part in text]
    return found
