"""A part of a measurement that runs as its own process.

A *program* is a module that runs with ``python -m``. It writes JSON objects, one per line, to its
standard output, and reads lines from its standard input, which ends with this process. Its standard
error is that of this process.

Runs in the calling thread; nothing is read ahead.
"""

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, Self, TypeVar

import msgspec

from zbk.conversion import decode_json
from zbk.errors import RequestTimeoutError, UnavailableError
from zbk.system.clock import monotonic_s
from zbk.system.interrupts import interrupted_later

READ_SIZE: Final = 64 * 1024
END_TIMEOUT_S: Final = 15.0

MessageT = TypeVar("MessageT", bound=msgspec.Struct)


class Program:
    """One such process; a context manager that kills it at the end."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self.name = module.rpartition(".")[2]
        self._received = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def receive(self, kind: type[MessageT], timeout_s: float) -> MessageT:
        """Return the next object that the program writes, which must be of this kind.

        Raises:
            UnavailableError: the program has ended.
            RequestTimeoutError: it wrote nothing within ``timeout_s``.
        """
        deadline_s = monotonic_s() + timeout_s
        while b"\n" not in self._received:
            self._received += self._read(deadline_s, timeout_s)
        line, _, self._received = self._received.partition(b"\n")
        return decode_json(line, kind)

    def send(self, line: str) -> None:
        """Send a line to the program.

        Raises:
            UnavailableError: the program has ended.
        """
        assert self._process.stdin is not None, "its standard input is a pipe"
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def kill(self) -> None:
        """Stop the program with SIGKILL and wait for its end. Twice is fine."""
        with interrupted_later():
            self._process.kill()
            self._process.wait(END_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "both are pipes"
            pipe.close()

    def _read(self, deadline_s: float, timeout_s: float) -> bytes:
        assert self._process.stdout is not None, "its standard output is a pipe"
        fd = self._process.stdout.fileno()
        is_ready, _, _ = select.select([fd], [], [], max(0.0, deadline_s - monotonic_s()))
        if not is_ready:
            raise RequestTimeoutError(f"the program {self.name}", timeout_s)
        data = os.read(fd, READ_SIZE)
        if not data:
            raise self._ended()
        return data

    def _ended(self) -> UnavailableError:
        exit_code = self._process.wait(END_TIMEOUT_S)
        return UnavailableError(f"the program {self.name} ended with exit code {exit_code}")


def report(message: msgspec.Struct) -> None:
    """Send an object to the program that started this one."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()
