"""Which system calls a unit of systemd permits, and which a process makes.

``python -m tests.support.system_calls FILE COMMAND ...`` becomes the command, whose calls strace
counts from the first one on. It keeps the process id: strace runs beside it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

SETS_FILE: Final = Path(__file__).parents[1] / "golden" / "system_call_sets.txt"
"""Sets of systemd 252 as `systemd-analyze syscall-filter` shows them, where there is no systemd."""

ANALYZE: Final = shutil.which("systemd-analyze")


def counted_bookie(file: Path) -> tuple[str, ...]:
    """Return the program, for ``LocalCluster``, of a bookie whose calls are counted in a file."""
    return ("-m", "tests.support.system_calls", str(file), "zbk", "bookie", "run")


def made_calls(file: Path) -> dict[str, int]:
    """Return how often each call was made, from the summary that strace writes at the end."""
    rows = re.findall(
        r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", file.read_text(), re.MULTILINE
    )
    return {name: int(count) for count, name in rows if name != "total"}


def permitted_calls(unit: str) -> set[str]:
    """Return what the lines ``SystemCallFilter`` of a unit permit; a line with ~ denies.

    As in systemd if the first one permits: each line adds to what those before it permit, or
    takes from it.
    """
    lines = re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE)
    found: set[str] = set()
    for line in lines:
        calls = {call for word in line.lstrip("~").split() for call in calls_of(word)}
        found = found - calls if line.startswith("~") else found | calls
    return found


def calls_of(word: str) -> set[str]:
    """Return the calls of a set, and of the sets in it; a call is a set of itself."""
    if not word.startswith("@"):
        return {word}
    return {call for one in _words_of(word) for call in calls_of(one)}


def _words_of(name: str) -> list[str]:
    text = shown_sets(name) if ANALYZE else SETS_FILE.read_text()
    block = re.search(rf"^{name}\n((?: .*\n|\n)*)", text, re.MULTILINE)
    assert block is not None, name
    return [line.strip() for line in block[1].splitlines() if line.strip() and "#" not in line]


def shown_sets(*names: str) -> str:
    """Return what this machine's systemd says about sets."""
    command = [ANALYZE or "", "syscall-filter", *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Become the command."""
    file, *command = sys.argv[1:]
    words = ["strace", "-D", "-f", "-qq", "-c", "-o", file, sys.executable, "-m", *command]
    os.execvp(words[0], words)  # noqa: S606 - a test


if __name__ == "__main__":
    main()
