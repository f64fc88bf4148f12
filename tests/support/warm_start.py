"""Start Python processes warm: forked from a process that has imported zbk already.

A bookie imports some 400 modules before it does anything, and the suite starts about a thousand
processes. Each of them is a real process with its own id, session, files and exit code; they share
the imports only. ``install`` replaces ``subprocess.Popen`` for one test process and for what it
starts warm:

    python -m MODULE ...    forked by ``tests.support.warm_starter``, a child of the test process
    anything else           started cold; so is a process whose limits, ignored signals,
                            PYTHON... variables, session or options the starter cannot give it

Processes that the suite starts in other ways (the ``zbk`` script, ``python`` in a shell) remain
cold. For most pages of the handbook, ``make_command`` makes a ``zbk`` that is warm.
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

from tests.support.warm_request import (
    REQUEST_SIZE_MAX,
    Request,
    receive_number,
    send_request,
)

ROOT: Final = Path(__file__).parents[2]
_LIMITS: Final = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_ColdPopen = subprocess.Popen


def install() -> None:
    """Start processes warm from now on, wherever this process uses ``subprocess``.

    The starter is what this process is now: a test may have changed variables or limits when the
    first process is started.
    """
    WarmPopen._base = _Base(dict(os.environ), _inherited(), os.getsid(0))
    setattr(subprocess, "Popen", WarmPopen)  # noqa: B010 - mypy takes it for a type


def install_below(address: bytes, session_id: int) -> None:
    """Do the same in a process that the starter has forked, by the starter at this address."""
    install()
    base = _Base(dict(os.environ), _inherited(), session_id)
    WarmPopen._starter = Starter(base, address)


def make_command(folder: Path) -> dict[str, str]:
    """Make a ``zbk`` in a folder that shells start warm, with the returned environment."""
    folder.mkdir()
    command = folder / "zbk"
    program = Path(__file__).with_name("warm_zbk.py").read_text("utf-8")
    command.write_text(f"#!{sys.executable} -IS\n{program}", "utf-8")
    command.chmod(0o755)
    starter = _starter(os.environ, has_session=False)
    assert starter is not None, "the variables or limits of this process were changed"
    return {"WARM_STARTER": starter.address[1:].decode(), "WARM_BIN": str(folder)}


class _Base(NamedTuple):
    """What the starter has from the test process."""

    environment: dict[str, str]
    inherited: list[object]
    session_id: int

    def is_like(self, environment: Mapping[str, str], *, has_session: bool) -> bool:
        """Return whether a process with these variables, started now, would have the same."""
        is_alike = _shared_variables(self.environment) == _shared_variables(environment)
        is_here = has_session or os.getsid(0) == self.session_id
        return is_alike and is_here and self.inherited == _inherited()


class Starter:
    """A process's end of the starter."""

    def __init__(self, base: _Base, address: bytes) -> None:
        self.address = address
        self._base = base
        self._socket: socket.socket | None = None
        self._pid = os.getpid()

    def can_start(self, environment: Mapping[str, str], *, has_session: bool) -> bool:
        """Return whether a process would find here what a cold one finds."""
        is_mine = self._pid == os.getpid()
        return is_mine and self._base.is_like(environment, has_session=has_session)

    def start(self, request: Request, files: Sequence[int]) -> tuple[int, socket.socket]:
        """Return the process id, and the socket that its exit status comes through."""
        ours, theirs = socket.socketpair()
        with theirs:
            send_request(self._connected(), request, [*files, theirs.fileno()])
        return receive_number(ours), ours

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_SIZE_MAX)
            self._socket.connect(self.address)
        return self._socket


class OwnStarter(Starter):
    """The test process's end, which begins and ends the starter."""

    def __init__(self, base: _Base) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("")  # the system chooses an address that is no file
        listener.listen()
        super().__init__(base, listener.getsockname())
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_SIZE_MAX)
        files = [theirs.fileno(), listener.fileno()]
        command = [sys.executable, "-m", "tests.support.warm_starter", *map(str, files)]
        with theirs, listener:
            self._process = _ColdPopen(command, pass_fds=files, cwd=ROOT, env=base.environment)
        atexit.register(self.close)

    def close(self) -> None:
        """End the starter. What it has started continues."""
        if self._pid == os.getpid():
            self._connected().close()
            self._process.wait()


class WarmPopen(_ColdPopen):  # type: ignore[type-arg]  # of bytes or of text, as it comes
    """A process, forked by the starter where that is possible."""

    _base: _Base | None = None
    _starter: Starter | None = None
    _status: socket.socket | None = None

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:  # noqa: ANN401
        close_fds, pass_fds, cwd, env, _, _, shell, *pipes = rest[:13]
        environment = dict(os.environ if env is None else env)
        has_umask = rest[17] != -1
        is_special = executable or preexec_fn or pass_fds or shell or has_umask or not close_fds
        words = [] if is_special else _words_of(args)
        has_session = bool(rest[18])
        is_module = words[:2] == [sys.executable, "-m"]
        starter = _starter(environment, has_session=has_session) if is_module else None
        if starter is None or not starter.can_start(environment, has_session=has_session):
            super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]
            return
        request = Request(
            module=words[2],
            arguments=words[3:],
            environment=environment,
            folder=os.fspath(cwd or Path.cwd()),
            has_session=has_session,
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
            status = receive_number(self._status, flags)
        except BlockingIOError:
            return 0, 0
        self._status.close()
        return self.pid, status

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


def _starter(environment: Mapping[str, str], *, has_session: bool) -> Starter | None:
    """Return the starter; make it for the first process that it can start."""
    base = WarmPopen._base
    if WarmPopen._starter or base is None:
        return WarmPopen._starter
    if base.is_like(environment, has_session=has_session):
        WarmPopen._starter = OwnStarter(base)
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
