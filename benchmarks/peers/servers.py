"""Servers of a peer: finding the program, starting it in a temporary folder, and cleaning up.

Each server is a child process on loopback, at a free port. Servers do not outlive this process: a
shell of one line reads their process ids from a pipe. When the pipe closes, because this process
ended for any reason, the shell kills them and removes the folder.

Used by the main thread.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import click

from benchmarks.peers.load import PeerFailedError
from zbk.cluster.child import Child
from zbk.errors import BookieError
from zbk.system.clock import monotonic_s
from zbk.system.interrupts import interrupted_later

HOST: Final = "127.0.0.1"
SERVER_COUNT: Final = 3
START_TIMEOUT_S: Final = 60.0
VERSION_TIMEOUT_S: Final = 10.0
LOOK_INTERVAL_S: Final = 0.05

FOLDERS_BESIDE_PATH: Final = ("/usr/local/sbin", "/usr/sbin")
"""Folders in which Debian installs servers, not on the path of an ordinary user."""

_WHEN_THE_PIPE_CLOSES = """\
while read -r pid; do pids="$pids $pid"; done
kill -9 $pids
sleep 1
rm -rf "$1"
"""

Version = tuple[int, int, int]


def find_server(program: str, given: Path | None, environment_path: str | None) -> Path:
    """Return the program to run: the given one, else one on the path or in Debian's folders.

    Raises:
        click.UsageError: there is none; the text has the command that installs it.
    """
    if given is not None:
        if given.is_file() and os.access(given, os.X_OK):
            return given.absolute()
        raise click.UsageError(f"--server {given}: no program is there")
    places = (environment_path or "", str(Path(sys.executable).parent), *FOLDERS_BESIDE_PATH)
    found = shutil.which(program, path=os.pathsep.join(filter(None, places)))
    if found is None:
        raise click.UsageError(
            f"{program} is not installed: apt-get install {program}, or give --server PATH"
        )
    return Path(found)


def version_of(server: Path) -> Version:
    """Ask a server program for its version.

    Raises:
        click.UsageError: it is not such a program.
    """
    try:
        done = subprocess.run(
            [server, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise click.UsageError(f"{server} --version: {error}") from error
    return parse_version(str(server), done.stdout + done.stderr)


def parse_version(server: str, text: str) -> Version:
    """Return the first version in the output of a server.

    >>> parse_version("nats-server", "nats-server: v2.9.10")
    (2, 9, 10)

    Raises:
        click.UsageError: there is none.
    """
    found = re.search(r"\bv=?(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise click.UsageError(f"{server} --version names no version: is it the right program?")
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


def version_text(version: Version) -> str:
    """Return a version as text."""
    return ".".join(map(str, version))


class Servers:
    """Server processes and their folder, for the time of a ``with`` block.

    >>> with Servers("redis") as servers:  # doctest: +SKIP
    ...     servers.start("redis 0", ["/usr/bin/redis-server"])
    """

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"zbk-peers-{name}-"))
        self._children: list[Child] = []
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _WHEN_THE_PIPE_CLOSES, "sh", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            with suppress(BookieError):  # it waits in the kernel: the guard cannot kill it, either
                child.kill()
        self._guard.kill()  # before a process id is used again
        self._guard.wait()
        assert self._guard.stdin is not None, "the guard reads a pipe"
        self._guard.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pids(self) -> list[int]:
        """Their process ids, in the order in which they were started."""
        return [child.pid for child in self._children]

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start one server; its output goes to a log file in the folder."""
        with interrupted_later():  # an interrupt here would leave the server running
            child = Child(name, command, self.folder / f"{name.replace(' ', '-')}.log")
            self._children.append(child)
            assert self._guard.stdin is not None, "the guard reads a pipe"
            self._guard.stdin.write(b"%d\n" % child.pid)
            self._guard.stdin.flush()

    def check_running(self) -> None:
        """Check that no server has ended.

        Raises:
            PeerFailedError: one has; the text has the end of its log.
        """
        for child in self._children:
            if child.exit_code is not None:
                raise PeerFailedError(str(child.death()))

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait until ``is_so``.

        Raises:
            PeerFailedError: a server ended, or it took longer than ``START_TIMEOUT_S``.
        """
        deadline_s = monotonic_s() + START_TIMEOUT_S
        pause = threading.Event()
        while not is_so():
            self.check_running()
            if monotonic_s() > deadline_s:
                raise PeerFailedError(f"{what}: not within {START_TIMEOUT_S:g} s")
            pause.wait(LOOK_INTERVAL_S)
