"""Makes system calls of a running process fail, with ``strace``: the kernel never sees them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

STRACE = shutil.which("strace") or ""


def can_inject() -> bool:
    """Return whether strace is here and may attach to our own children."""
    if not STRACE:
        return False
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        command = [STRACE, "-qq", "-o", os.devnull, "-p", str(sleeper.pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: tracer.poll() is not None or _is_traced(sleeper.pid), timeout_s=5)
            return tracer.poll() is None
        finally:
            tracer.terminate()
            tracer.wait(10)
    finally:
        sleeper.communicate(b"\n", timeout=10)


@pytest.fixture(scope="module")
def strace() -> None:
    """Skip where calls cannot be made to fail."""
    if not can_inject():
        pytest.skip("no strace here (apt-get install strace), or it may not attach")


WRITES = "pwrite64,pwritev,pwritev2"  # which one Python calls is up to its C library


@contextmanager
def failing(
    pid: int, calls: str, error: str, path: Path, log: Path
) -> Iterator[Callable[[], bool]]:
    """Make calls fail that a process makes on one file, for as long as the block goes on.

    What it yields tells whether one has failed yet; one has to, or the block has tested nothing.
    """
    command = [STRACE, "-f", "-qq", "-o", str(log), "-p", str(pid), "-P", str(path)]
    command += ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _is_traced(pid), what="strace at every thread")
        yield lambda: "(INJECTED)" in log.read_text()
    finally:
        tracer.terminate()
        tracer.wait(10)
    assert "(INJECTED)" in log.read_text(), f"no {calls} of {path} was made to fail"


def _is_traced(pid: int) -> bool:
    """Return whether all threads of a process have a tracer."""
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:
        return False  # a thread has just ended
    return bool(texts) and all("TracerPid:\t0\n" not in text for text in texts)
