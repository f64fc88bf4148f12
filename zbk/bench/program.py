"""A part of a measurement that needs a process of its own: started, heard, told, killed.

A *program* is a module below ``zbk.bench`` that runs with ``python -m``. It tells JSON objects, one
a line, on its standard output, and hears lines on its standard input, which ends when we are gone.
What it says on standard error goes to ours.

Runs in the thread that calls; nothing is read ahead of what was asked for.
"""

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from zbk.errors import RequestTimeoutError, UnavailableError
from zbk.system.clock import monotonic_s

READ_SIZE: Final = 64 * 1024
END_TIMEOUT_S: Final = 15.0

MessageT = TypeVar("MessageT", bound=msgspec.Struct)


class Program:
    """One such process. As a context manager it is gone afterwards, killed if need be."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self.name = module.rpartition(".")[2]
        self._heard = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def hear(self, kind: type[MessageT], timeout_s: float) -> MessageT:
        """Return the next object that it tells, which must be of this kind.

        Raises:
            UnavailableError: it has ended.
            RequestTimeoutError: it told nothing within ``timeout_s``.
        """
        deadline_s = monotonic_s() + timeout_s
        while b"\n" not in self._heard:
            self._heard += self._read(deadline_s, timeout_s)
        line, _, self._heard = self._heard.partition(b"\n")
        return msgspec.json.decode(line, type=kind)

    def tell(self, line: str) -> None:
        """Send it a line.

        Raises:
            UnavailableError: it has ended.
        """
        assert self._process.stdin is not None, "its standard input is a pipe"
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def kill(self) -> None:
        """End it with SIGKILL; return when it is gone. Twice is fine."""
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


def tell(message: msgspec.Struct) -> None:
    """Send an object to the program that started this one."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()
