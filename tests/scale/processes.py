"""What processes cost that have nothing to do: ``zbk up``, its bookies, autorecovery, a client."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.scale.cases import Say, Size
from tests.scale.figures import Figure, at_most
from tests.support.waiting import wait_until
from zbk.system.process import usage

SETTLE_S: Final = 30.0
"""After so long what a start has left to do is done, and unused connections are closed."""

CLIENT: Final = """
import sys, threading, zbk
with zbk.connect(sys.argv[1], connection_idle_ms=1_000) as client:
    with client.create_ledger() as ledger:
        ledger.append(b"entry")
    assert len(list(client.open_ledger(ledger.ledger_id).read(0, 0))) == 1
    print("ready", flush=True)
    sys.stdin.read()
"""

CPU_SHARE_MAX: Final = {"zbk up": 0.1, "bookie": 0.3, "autorecovery": 0.1, "client": 0.1}
"""Percent of a core, by the name of a process."""

WAKEUP_COUNT_MAX: Final = {"zbk up": 5, "autorecovery": 5, "client": 5}
"""A second."""


def processes(folder: Path, how: Size, say: Say) -> list[Figure]:
    """Processes with nothing to do: their CPU time, and how often they wake up."""
    figures = []
    with _cluster(folder) as up, _client(folder) as client:
        threading.Event().wait(SETTLE_S)
        named = _named(up) | {client: "client"}
        before = {pid: (usage(pid).cpu_ms, wakeup_count(pid)) for pid in named}
        threading.Event().wait(how.seconds)
        for pid, name in named.items():
            cpu_ms, count = before[pid]
            percent = (usage(pid).cpu_ms - cpu_ms) / how.seconds / 10
            wakeups = (wakeup_count(pid) - count) / how.seconds
            say(f"{name} ({pid}): {percent:.2f} % of a core, {wakeups:.1f} wake-ups a second")
            figures.append(at_most(percent, CPU_SHARE_MAX[name], "%", "processes", f"{name}: CPU"))
            if name in WAKEUP_COUNT_MAX:
                limit = WAKEUP_COUNT_MAX[name]
                what = f"{name}: wake-ups a second"
                figures.append(at_most(wakeups, limit, "/s", "processes", what))
    return figures


def wakeup_count(pid: int) -> int:
    """Return how often the threads of a process have waited for something and been woken."""
    count = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has ended
        count += sum(int(one.split()[1]) for one in lines if one.startswith("voluntary_ctxt"))
    return count


@contextmanager
def _cluster(folder: Path) -> Iterator[int]:
    log_path = folder / "up.log"
    own = os.environ | {"XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    command = [sys.executable, "-m", "zbk", "up", "--data", str(folder / "cluster")]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=own)
    try:
        wait_until(lambda: "READY" in log_path.read_text(), 60.0, "zbk up")
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _client(folder: Path) -> Iterator[int]:
    uri = f"sqlite://{folder}/cluster/metadata.db"
    command = [sys.executable, "-c", CLIENT, uri]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", "the client has failed"
        yield process.pid
        process.communicate(timeout=60)


def _named(up: int) -> dict[int, str]:
    """Return the names of the processes by their ids."""
    folder = Path(f"/proc/{up}/task/{up}/children")
    named = {up: "zbk up"}
    for pid in map(int, folder.read_text().split()):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        named[pid] = "autorecovery" if b"autorecovery" in command else "bookie"
    return named
