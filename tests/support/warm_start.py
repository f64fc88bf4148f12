"""Start Python processes warm: forked from a process that has imported zbk already.

A bookie imports some 400 modules before it does anything, and the suite starts about a thousand
processes. Each of them is a real process with its own id, session, files and exit code; they share
the imports only. ``install`` replaces ``subprocess.Popen`` for one test process:

    python -m MODULE ...    forked by ``tests.support.warm_starter``, a child of the test process
    anything else           started cold; so is a process whose limits, ignored signals,
                            PYTHON... variables or options the starter cannot give it

Processes that the suite starts in other ways (a shell, the ``zbk`` script) remain cold, among them
those of the handbook's pages.
"""

import atexit
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tests.support.warm_starter import REQUEST_SIZE_MAX, Request

ROOT: Final = Path(__file__).parents[2]
_LIMITS: Final = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_ColdPopen = subprocess.Popen


def install() -> None:
    """Start processes warm from now on, wherever this process uses ``subprocess``.

    The starter is what this process is now: a test may have changed variables or limits when the
    first process is started.
    """
    WarmPopen._base = _Base(dict(os.environ), _inherited())
    setattr(subprocess, "Popen", WarmPopen)  # noqa: B010 - mypy takes it for a type


class _Base(NamedTuple):
    """What the starter has from the test process."""

    environment: dict[str, str]
    inherited: list[object]

    def is_like(self, environment: Mapping[str, str]) -> bool:
        """Return whether a process with these variables, started now, would have the same."""
        is_alike = _shared_variables(self.environment) == _shared_variables(environment)
        return is_alike and self.inherited == _inherited()


class Starter:
    """The test process's end of the starter."""

    def __init__(self, base: _Base) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_SIZE_MAX)
        self._pid = os.getpid()
        self._base = base
        command = [sys.executable, "-m", "tests.support.warm_starter", str(theirs.fileno())]
        with theirs:
            self._process = _ColdPopen(
                command, pass_fds=[theirs.fileno()], cwd=ROOT, env=base.environment
            )
        atexit.register(self.close)

    def can_start(self, environment: Mapping[str, str]) -> bool:
        """Return whether a process would find here what a cold one finds."""
        return self._base.is_like(environment) and self._pid == os.getpid()

    def start(self, request: Request, files: Sequence[int]) -> tuple[int, socket.socket]:
        """Return the process id, and the socket that its exit status comes through."""
        ours, theirs = socket.socketpair()
        with theirs:
            data = msgspec.msgpack.encode(request)
            socket.send_fds(self._socket, [data], [*files, theirs.fileno()])
        return int.from_bytes(ours.recv(8, socket.MSG_WAITALL), "little"), ours

    def close(self) -> None:
        """End the starter. What it has started continues."""
        if self._pid == os.getpid():
            self._socket.close()
            self._process.wait()


class WarmPopen(_ColdPopen):  # type: ignore[type-arg]  # of bytes or of text, as it comes
    """A process, forked by the starter where that is possible."""

    _base: _Base | None = None
    _starter: Starter | None = None
    _status: socket.socket | None = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:  # noqa: ANN401
        close_fds, pass_fds, cwd, env, _, _, shell, *pipes = rest[:13]
        environment = dict(os.environ if env is None else env)
        is_special = executable or preexec_fn or pass_fds or shell or not close_fds
        words = [] if is_special else _words_of(args)
        is_module = words[:2] == [sys.executable, "-m"]
        starter = _starter(environment) if is_module else None
        if starter is None or not starter.can_start(environment):
            super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]
            return
        request = Request(
            module=words[2],
            arguments=words[3:],
            environment=environment,
            folder=os.fspath(cwd or Path.cwd()),
            has_session=bool(rest[18]),
        )
        stdin, _, _, stdout, _, stderr = pipes
        files = [
            fd if fd != -1 else inherited for inherited, fd in enumerate((stdin, stdout, stderr))
        ]
        self.pid, self._status = starter.start(request, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        try:
            flags = socket.MSG_DONTWAIT if wait_flags & os.WNOHANG else 0
            status = self._status.recv(8, flags)
        except BlockingIOError:
            return 0, 0
        self._status.close()
        assert status, "the starter ended before the process"
        return self.pid, int.from_bytes(status, "little")

    def _internal_poll(self, *arguments: Any, **options: Any) -> int | None:  # noqa: ANN401
        if self._status is None:
            return super()._internal_poll(*arguments, **options)  # type: ignore[misc, no-any-return]
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(blocking=False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                lock.release()
        return self.returncode


def _starter(environment: Mapping[str, str]) -> Starter | None:
    """Return the starter; make it for the first process that it can start."""
    base = WarmPopen._base
    if WarmPopen._starter is None and base is not None and base.is_like(environment):
        WarmPopen._starter = Starter(base)
    return WarmPopen._starter


def _words_of(args: object) -> list[str]:
    if not isinstance(args, Sequence) or isinstance(args, str | bytes):
        return []
    return [str(word) for word in args]


def _shared_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that count before a program starts."""
    kept = {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "MALLOC_", "LD_", "LC_")) or name in ("LANG", "TZ")
    }
    kept.pop("PYTHONUNBUFFERED", None)  # which the starter can give
    return kept


def _inherited() -> list[object]:
    """Return what else a process has from its parent: limits, and signals that are ignored."""
    ignored = {number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_IGN}
    return [ignored, *(resource.getrlimit(limit) for limit in _LIMITS)]
