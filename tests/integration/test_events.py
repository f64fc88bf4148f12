"""``zbk events`` of a running cluster: from its console, and watched without one."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import QUICK, Shell
from zbk.cluster.local import LocalCluster


@contextmanager
def command(shell: Shell, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a command that runs until Ctrl-C, which must end it well."""
    running = shell.start(*arguments)
    try:
        yield running
        running.send_signal(signal.SIGINT)
        _output, errors = running.communicate(timeout=60)
        assert running.returncode == 0, errors
        assert b"Traceback" not in errors
    finally:
        running.kill()
        running.wait()


def wait_for(running: "subprocess.Popen[bytes]", *kinds: str) -> None:
    """Read lines until one of an event of these kinds."""
    assert running.stdout is not None
    assert any(json.loads(line)["kind"] in kinds for line in running.stdout)


@pytest.mark.parametrize("has_console", [True, False])
def test_a_lost_bookie_is_an_event_as_soon_as_it_is_lost(tmp_path: Path, has_console: bool) -> None:
    with LocalCluster(tmp_path / "data", bookie_count=2, bookie_options=QUICK) as cluster:
        shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
        if not has_console:
            with command(shell, "events", "--follow", "-o", "json") as running:
                assert running.stderr is not None
                assert b"watching the cluster from now on" in running.stderr.readline()
                cluster.kill(0)
                wait_for(running, "silent", "lost")
                cluster.restart(0)
                wait_for(running, "answers", "joined")
            return
        with command(shell, "console", "--http", "127.0.0.1:0", "-o", "json") as console:
            assert console.stdout is not None
            url = json.loads(console.stdout.readline())["url"]
            following = ("events", "--console", url, "--follow", "-o", "json")
            with command(shell, *following) as running:
                cluster.kill(0)
                wait_for(running, "lost")
            table = shell.run("events", "--console", url).stdout.decode()
            assert "the bookie left the cluster" in table
