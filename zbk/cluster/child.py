"""One process of a local cluster: started, watched, stopped, killed, paused.

Its output goes to a log file. It runs in its own session, so that Ctrl-C in a terminal reaches only
the parent, which stops its children in order. Its standard input is a pipe without a writer: the
pipe closes when the parent ends, for any reason, and a child that watches it (``zbk bookie run
--stop-with-parent``) ends, too.

Source: redpanda, where a cluster that does not start shows the last lines of the child's log.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from zbk.errors import BookieError
from zbk.system.interrupts import interrupted_later
from zbk.system.private_file import open_private

LOG_LINES_SHOWN: Final = 20
LOG_TAIL_SIZE: Final = 16 * 1024  # bytes read from the end of a log for these lines
LOG_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes at which a log is rotated: the logs of a process take about twice that."""

COPY_SIZE: Final = 1024 * 1024
STOP_TIMEOUT_S: Final = 15.0


class Child:
    """A child process. One thread at a time may use it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        log_size_max: int = LOG_SIZE_MAX,
    ) -> None:
        self.name = name
        self._log_size_max = log_size_max
        self._log_path = log_path
        self._old_log_path = log_path.with_name(f"{log_path.name}.1")
        log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(log_path, "ab", opener=open_private) as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )

    @property
    def pid(self) -> int:
        """The process id, also after its end."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, as in ``subprocess`` (-9: SIGKILL); ``None`` while the process runs."""
        with interrupted_later():
            return self._process.poll()

    def death(self) -> BookieError:
        """Return the error of a process that has ended: its exit code and the end of its log."""
        return BookieError(f"{self.name} ended {self._how_it_ended()}; {self._last_words()}")

    def kill(self) -> None:
        """Stop the process with SIGKILL, like a crash, and wait for its end.

        Raises:
            BookieError: the kernel has not ended it within ``STOP_TIMEOUT_S``.
        """
        self._signal(signal.SIGKILL)
        try:
            self._wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BookieError(
                f"{self.name}, pid {self.pid}, has not ended {STOP_TIMEOUT_S:g} s after SIGKILL: "
                "it waits in the kernel, as a rule for a disk that does not answer; see "
                f"`ps -o stat,wchan {self.pid}`"
            ) from None

    def ask_to_stop(self) -> None:
        """Send SIGTERM and do not wait."""
        self.resume()  # a paused process handles no signal
        self._signal(signal.SIGTERM)

    def wait_stopped(self) -> int:
        """Wait for the end, and kill a process that is too slow; return the exit code.

        Raises:
            BookieError: as in ``kill``.
        """
        try:
            return self._wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._wait(STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Pause the process (SIGSTOP): alive to the kernel, silent to its peers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process."""
        self._signal(signal.SIGCONT)

    def rotate_log(self) -> bool:
        """Move a large log to ``<name>.1``; return whether it was moved.

        The process keeps its file, so the file is copied and truncated. Lines written between the
        two, which are microseconds apart, are lost. A log that cannot be copied, for example to a
        full disk, is kept until it is twice as large.
        """
        try:
            if self._log_path.stat().st_size <= self._log_size_max:
                return False
            with (
                self._log_path.open("rb+") as log,
                open(self._old_log_path, "wb", opener=open_private) as old,
            ):
                while data := log.read(COPY_SIZE):  # to the end, with lines that come meanwhile
                    old.write(data)
                old.flush()
                log.truncate(0)
        except OSError:
            self._log_size_max *= 2
            return False
        self._log_start = 0
        return True

    def log_tail(self) -> list[str]:
        """Return the last lines of the log since this start, oldest first."""
        with self._log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            start = max(self._log_start, end - LOG_TAIL_SIZE)
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
        return lines[-LOG_LINES_SHOWN:]

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError), interrupted_later():
            self._process.send_signal(number)

    def _wait(self, timeout_s: float) -> int:
        with interrupted_later():
            exit_code = self._process.wait(timeout_s)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return exit_code

    def _how_it_ended(self) -> str:
        exit_code = self._process.returncode
        if exit_code < 0:
            with suppress(ValueError):
                return f"by {signal.Signals(-exit_code).name}"
            return f"by signal {-exit_code}"
        return f"with exit code {exit_code}"

    def _last_words(self) -> str:
        lines = self.log_tail()
        if not lines:
            return f"it wrote nothing to {self._log_path}"
        return f"the end of {self._log_path}:" + "".join(f"\n    {line}" for line in lines)
