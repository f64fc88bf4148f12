"""Trials of the command line with standard streams that fail: each in a forked process.

    python -m tests.support.stream_trial     a trial a line comes in as JSON, its outcome goes out

One process imports zbk once, and forks for each trial. What the child finds is what a new
interpreter finds: a closed descriptor is ``None`` in ``sys``.
"""

import fcntl
import importlib
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import msgspec

PRELOADED: Final = ("zbk.cli.main", "zbk.client.api", "zbk.metadata.stores.sqlite", "rich.progress")
READ_SIZE: Final = 1 << 16


class Trial(msgspec.Struct, frozen=True):
    """A command line, and how its streams are.

    ``way``: plain (pipes), full (output to /dev/full), no-output (closed),
    error-full (error output to /dev/full), only-output (input and
    error output closed), head (the reader of the output leaves after its first byte), narrow (a
    terminal of 20 columns).
    """

    arguments: list[str]
    way: str


class Outcome(msgspec.Struct, frozen=True):
    """What came of a trial; in a terminal, ``output`` has the errors, too."""

    exit_code: int
    output: str
    errors: str


class Trials:
    """The process that runs trials; a context manager."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.stream_trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environment),
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self._process.communicate()

    def run(self, arguments: list[str], way: str) -> Outcome:
        """Return what comes of one trial."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(Trial(arguments, way)) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Outcome)


# ------------------------------------------------------------------ in the process of its own


def main() -> None:
    """Run the trials of standard input."""
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin.buffer:
        outcome = _run(msgspec.json.decode(line, type=Trial))
        sys.stdout.write(json.dumps(msgspec.to_builtins(outcome)) + "\n")
        sys.stdout.flush()


def _run(trial: Trial) -> Outcome:
    with tempfile.TemporaryFile() as errors:
        if trial.way == "narrow":
            reading, writing = pty.openpty()
            fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
        else:
            reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            _become(trial, writing, errors)
        os.close(writing)
        output = _read(reading, is_leaving=trial.way == "head")
        _, status = os.waitpid(pid, 0)
        errors.seek(0)
        return Outcome(
            os.waitstatus_to_exitcode(status),
            output.decode("utf-8", "replace"),
            errors.read().decode("utf-8", "replace"),
        )


def _read(reading: int, *, is_leaving: bool) -> bytes:
    parts: list[bytes] = []
    try:
        while part := os.read(reading, 1 if is_leaving else READ_SIZE):
            parts.append(part)
            if is_leaving:
                break
    except OSError:  # the other end of a terminal is closed
        pass
    os.close(reading)
    return b"".join(parts)


def _become(trial: Trial, writing: int, errors: BinaryIO) -> None:
    """Run the command with its streams; never return."""
    null = os.open(os.devnull, os.O_RDWR)
    is_narrow = trial.way == "narrow"
    error = writing if is_narrow else errors.fileno()
    files = {0: null, 1: writing, 2: error}
    full = {"full": 1, "error-full": 2}.get(trial.way)
    if full is not None:
        files[full] = os.open("/dev/full", os.O_WRONLY)
    for number, fd in files.items():
        os.dup2(fd, number)
    os.closerange(3, 256)
    closed = {"no-output": (1,), "only-output": (0, 2)}.get(trial.way, ())
    for number in closed:
        os.close(number)
    streams: list[Any] = [
        None if number in closed else open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - descriptors
        for number, mode in enumerate("rww")
    ]
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.argv = ["zbk", *trial.arguments]
    from zbk.cli.main import main as run_command  # noqa: PLC0415 - imported before the fork

    code: object = 1
    try:
        run_command()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter shows it
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:  # as at the end of the interpreter
            os.write(2, f"Exception ignored in: {error}\nTraceback\n".encode())
            code = 120
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    main()
