"""The blocks of a document, run as a reader would type them.

A ``sh`` or ``python`` block runs in a fresh home with a checkout in it. A block that begins with a
server (``SERVERS``) starts it and ends when the server is ready; the server stops at the end of the
test. Each block of another language is shown and not run, with one exception: a ``text`` block
right after a block has the output that is expected, and ``...`` in it stands for anything.
"""

import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.http import ask
from tests.support.machine import patient_s
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
BLOCK_TIMEOUT_S = patient_s(60.0)
SERVERS = ("zbk up", "zbk bookie run", "zbk autorecovery run", "zbk console")

_ACTIVATE = '. .venv/bin/activate\nPATH="${WARM_BIN:+$WARM_BIN:}$PATH"\n'
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block that runs, and the output that the document shows for it ("" if none)."""

    language: str
    text: str
    expected: str = ""


class Started(NamedTuple):
    """A server that a block started."""

    process: "subprocess.Popen[str]"

    def stop(self) -> None:
        """End the server by SIGTERM and wait for it."""
        self.process.terminate()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a document that run, in order."""
    found: list[Block] = []
    end_of_last = -1
    for match in _FENCE.finditer(text):
        language, inside = match.groups()
        if language in ("sh", "python"):
            found.append(Block(language, inside))
            end_of_last = match.end()
        elif language == "text" and not text[end_of_last : match.start()].strip() and found:
            found[-1] = found[-1]._replace(expected=inside)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh home with a checkout in it, as far as the documents use one."""
    checkout = tmp_path / "zbk"
    checkout.mkdir()
    (checkout / ".venv").symlink_to(sys.prefix)
    return tmp_path


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ZBK_", "XDG_", "VIRTUAL_"))}
    quick = {"ZBK_BOOKIE_GC_CONFIRM_DELAY_MS": "100ms"}  # no page shows the delay itself
    return kept | quick | {"HOME": str(home), "TMPDIR": str(home), "NO_COLOR": "1"}


@pytest.fixture
def servers() -> Iterator[list[Started]]:
    """The servers that the test starts; the last one is stopped first."""
    running: list[Started] = []
    yield running
    for server in reversed(running):
        server.stop()


def run_blocks(
    blocks: Sequence[Block], home: Path, environment: dict[str, str], servers: list[Started]
) -> dict[str, str]:
    """Run blocks in order; return what each printed, by its text."""
    outputs: dict[str, str] = {}
    for block in blocks:
        if block.text.startswith(SERVERS):
            servers.append(start_and_wait_ready(block.text, home, environment))
        else:
            outputs[block.text] = run_block(block, home, environment)
    return outputs


def run_block(
    block: Block, home: Path, environment: dict[str, str], timeout_s: float = BLOCK_TIMEOUT_S
) -> str:
    """Run a block; fail if it fails, or if it prints something else than the document shows."""
    shell = block.text if block.language == "sh" else f"python - <<'END'\n{block.text}END\n"
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", f"{_ACTIVATE}{shell}"],
        cwd=home / "zbk",
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
    if block.expected:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        is_alike = doctest.OutputChecker().check_output(block.expected, done.stdout, flags)
        assert is_alike, f"{block.text}\nexpected:\n{block.expected}\nprinted:\n{done.stdout}"
    return done.stdout


def start_and_wait_ready(text: str, home: Path, environment: dict[str, str]) -> Started:
    """Start the server of a block and wait until it says that it is ready."""
    process = subprocess.Popen(
        ["/bin/bash", "-euc", f"{_ACTIVATE}exec {text}"],
        cwd=home / "zbk",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        printed.append(line)
        if _is_ready(line):
            return Started(process)
    process.stdout.close()
    process.wait()
    raise AssertionError(f"{text} ended before it was ready:\n{''.join(printed)}")


def _is_ready(line: str) -> bool:
    """Return whether a server is ready as it prints this. A console has seen the bookies, too."""
    if console := re.match(r"console  (http\S+)", line):
        wait_until(lambda: _bookies_at(console[1]) is not None, what="the bookies in the console")
    return bool(console or re.search(r"\bREADY\b", line))


def _bookies_at(url: str) -> int | None:
    count: int | None = json.loads(ask(f"{url}/index.json").body)["headline"]["bookie_count"]
    return count


def find(outputs: dict[str, str], part: str) -> str:
    """Return what the one block that has ``part`` in it printed."""
    (found,) = [output for text, output in outputs.items() if part in text]
    return found
