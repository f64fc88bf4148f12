"""The starter: a process that has imported zbk, and forks a process for each request.

    python -m tests.support.warm_starter FD     requests come through the socket FD

``tests.support.warm_start`` is the other end. The starter has one thread, so that a fork copies no
lock that another thread holds.
"""

import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

PRELOADED: Final = (
    "zbk.auditor.bookie_process",
    "zbk.cli.autorecovery.group",
    "zbk.cli.bookie.group",
    "zbk.cli.ledger.group",
    "zbk.cli.ledger.read",
    "zbk.cli.ledger.write",
    "zbk.cli.main",
    "zbk.cli.parent",
    "zbk.cli.signals",
    "zbk.client.api",
    "zbk.client.log.log",
    "zbk.client.write.open_writers",
    "zbk.cluster.local",
    "zbk.metadata.stores.sqlite",
    "zbk.metadata.stores.zookeeper",
)
REQUEST_SIZE_MAX: Final = 1 << 20
FILE_COUNT: Final = 4
"""Standard input, output and error of a process, and where its id and its exit status go."""


class Request(msgspec.Struct, frozen=True):
    """A module to run as ``python -m`` does. Its files come beside it."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    has_session: bool


def serve(requests: socket.socket) -> Request | None:
    """Fork a process for each request. Return the request there, and ``None`` here at the end."""
    children: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process id, receiver of status
    poller = select.poll()
    poller.register(requests, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd in children:
                pid, receiver = children.pop(fd)
                poller.unregister(fd)
                os.close(fd)
                _send(receiver, os.waitpid(pid, 0)[1])
                receiver.close()
                continue
            data, files, _, _ = socket.recv_fds(requests, REQUEST_SIZE_MAX, FILE_COUNT)
            if not data:
                return None
            request = msgspec.msgpack.decode(data, type=Request)
            pid = os.fork()
            if not pid:
                # their descriptors are closed next; the objects must not close later ones
                for one in (requests, *(receiver for _, receiver in children.values())):
                    one.detach()
                _become(request, files[:3])
                return request
            receiver = socket.socket(fileno=files.pop())
            for file in files:
                os.close(file)
            _send(receiver, pid)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = (pid, receiver)
            poller.register(pidfd, select.POLLIN)


def _send(receiver: socket.socket, number: int) -> None:
    with suppress(OSError):  # the test process has ended
        receiver.sendall(number.to_bytes(8, "little"))


def _become(request: Request, files: Sequence[int]) -> None:
    """Give the forked process its files, environment, folder and signals."""
    if request.has_session:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    sys.path[0] = request.folder
    sys.argv = [request.module, *request.arguments]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
    is_unbuffered = bool(request.environment.get("PYTHONUNBUFFERED"))
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = open(  # noqa: SIM115 - a descriptor
            number,
            "w",
            buffering=1 if number == 2 or os.isatty(number) else -1,
            encoding="utf-8",
            errors="strict" if number == 1 else "backslashreplace",
            closefd=False,
        )
        stream.reconfigure(write_through=is_unbuffered)
        setattr(sys, name, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Import what is shared, then start processes until the test process closes the socket."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    request = serve(requests)
    if request is not None:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
