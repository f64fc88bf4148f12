"""A process that is started warm is a process like any other."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machine import patient_s
from tests.support.warm_start import OwnStarter, WarmPopen, make_command

PROBE = """
import json, os, signal, sys
print(json.dumps({
    "arguments": sys.argv[1:], "folder": os.getcwd(), "pid": os.getpid(), "path": sys.path[0],
    "has_session": os.getsid(0) == os.getpid(), "x": os.environ.get("X"),
    "files": len(os.listdir("/proc/self/fd")), "is_main": __name__ == "__main__",
    "command": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"),
}), flush=True)
print("error", file=sys.stderr)
if "wait" in sys.argv:
    signal.pause()
sys.exit(7)
"""

ENDING = """
import atexit, sys, zmq
context = zmq.Context()
sockets = [context.socket(zmq.PAIR) for _ in range(100)]
atexit.register(lambda: [one.get(zmq.EVENTS) for one in sockets] and context.destroy(0))
print("printed", flush=True)
sys.exit(0)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "probe.py").write_text(PROBE)
    return [sys.executable, "-m", "probe"]


def is_warm(process: "subprocess.Popen[str]") -> bool:
    assert isinstance(process, WarmPopen)
    return process._status is not None


def test_it_has_what_a_cold_process_has(command: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "X": "1"}
    cold = {**environment, "PYTHONWARNDEFAULTENCODING": ""}
    said = []
    for one in (environment, cold):
        with subprocess.Popen(
            [*command, "a", "b"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=one,
            cwd=tmp_path,
            text=True,
            start_new_session=True,
        ) as process:
            out, error = process.communicate()
            assert is_warm(process) is (one is environment)
        said.append((out.replace(str(process.pid), "PID"), error, process.returncode))

    assert said[0] == said[1]
    assert said[0][2] == 7


def test_a_signal_ends_it_and_is_its_exit_code(command: list[str], tmp_path: Path) -> None:
    with subprocess.Popen(
        [*command, "wait"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = is_warm(process), process.poll()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.001)
        process.kill()  # before anything is judged: a failure waits for the process
        assert before == (True, None)
        assert process.wait(30) == process.poll() == -signal.SIGKILL


def test_an_interrupt_raises_keyboard_interrupt_in_it(command: list[str], tmp_path: Path) -> None:
    with subprocess.Popen(
        [*command, "wait"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]


def test_other_limits_make_it_cold(command: list[str], tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert not is_warm(process)
            process.communicate()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert process.returncode == 7


def test_at_its_end_it_closes_no_file_but_its_own(tmp_path: Path) -> None:
    """The starter's sockets have numbers that are files of this process.

    When their objects closed them at the end, zmq found its signaler gone and aborted.
    """
    (tmp_path / "probe.py").write_text(ENDING)
    command = [sys.executable, "-m", "probe"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert is_warm(process)
        said = process.communicate(timeout=60)

    assert (*said, process.returncode) == ("printed\n", "", 0)


def test_the_first_start_may_come_while_a_test_has_changed_variables_or_limits(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WarmPopen, "_starter", None)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with monkeypatch.context() as changed:
        changed.setenv("PYTHONPATH", str(tmp_path))
        assert not is_warm(ended(command, tmp_path))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        assert not is_warm(ended(command, tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert is_warm(ended(command, tmp_path))
    assert isinstance(WarmPopen._starter, OwnStarter)
    WarmPopen._starter.close()


def ended(command: list[str], folder: Path) -> "subprocess.Popen[str]":
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.wait(60) == 7
        return process


STARTING = """
import os, subprocess, sys
command = [sys.executable, "-m", "probe", *sys.argv[2:]]
with subprocess.Popen(command, start_new_session=sys.argv[1] == "own session") as process:
    print(getattr(process, "_status", None) is not None, flush=True)
sys.exit(process.returncode)
"""


@pytest.mark.parametrize(
    ("session", "is_below_warm"), [("own session", True), ("my session", False)]
)
def test_what_it_starts_is_warm_too(
    session: str, is_below_warm: bool, command: list[str], tmp_path: Path
) -> None:
    """Unless the starter is in another session than the new process would be."""
    (tmp_path / "starting.py").write_text(STARTING)
    with subprocess.Popen(
        [*command[:2], "starting", session, "below"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert is_warm(process)
        out, error = process.communicate(timeout=60)

    said = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    assert f"{is_below_warm}\n" in out
    assert (said["arguments"], said["has_session"]) == (["below"], session == "own session")
    assert (error, process.returncode) == ("error\n", 7)


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell with a warm ``zbk``."""
    warm = make_command(tmp_path / "bin")
    return os.environ | warm | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def test_a_shell_has_a_warm_zbk_that_prints_and_fails_as_zbk_does(
    shell: dict[str, str], tmp_path: Path
) -> None:
    def said(program: str) -> tuple[str, str, int]:
        done = subprocess.run(
            ["/bin/sh", "-c", f"{program} version && {program} no-such-command"],
            capture_output=True,
            text=True,
            env=shell,
            cwd=tmp_path,
            check=False,
        )
        return done.stdout, done.stderr, done.returncode

    assert said("zbk") == said(f"{sys.executable} -m zbk")
    assert said("zbk")[2] == 2


def test_a_signal_ends_what_a_shell_has_started_warm(shell: dict[str, str], tmp_path: Path) -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec zbk up --bookies 1 --data {tmp_path / 'data'}"],
        stdout=subprocess.PIPE,
        text=True,
        env=shell,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert any("READY" in line for line in process.stdout)
        process.terminate()
        assert process.wait(patient_s(60)) == 0
