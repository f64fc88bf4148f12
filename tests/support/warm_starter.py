"""The starter: a process that has imported zbk, and forks a process for each request.

    python -m tests.support.warm_starter FD LISTENER     requests come through these sockets

``tests.support.warm_start`` is the other end. The starter has one thread, so that a fork copies no
lock that another thread holds.
"""

import atexit
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support import warm_start
from tests.support.warm_request import Request, receive_request, send_number

PRELOADED: Final = (
    "encodings.ascii",
    "encodings.idna",
    "starlette.applications",
    "tomllib",
    "uvicorn.lifespan.off",
    "zbk.admin.routes",
    "zbk.auditor.bookie_process",
    "zbk.cli.autorecovery.group",
    "zbk.cli.bench.write",
    "zbk.cli.bookie.group",
    "zbk.cli.dataset.group",
    "zbk.cli.dataset.read",
    "zbk.cli.health.check_security",
    "zbk.cli.health.doctor",
    "zbk.cli.health.status",
    "zbk.cli.health.top",
    "zbk.cli.ledger.group",
    "zbk.cli.ledger.read",
    "zbk.cli.ledger.write",
    "zbk.cli.log.group",
    "zbk.cli.log.read",
    "zbk.cli.log.write",
    "zbk.cli.main",
    "zbk.cli.parent",
    "zbk.cli.signals",
    "zbk.cli.up",
    "zbk.client.api",
    "zbk.client.log.log",
    "zbk.client.write.open_writers",
    "zbk.cluster.load",
    "zbk.cluster.local",
    "zbk.cluster.local_keys",
    "zbk.console.console",
    "zbk.http.server",
    "zbk.metadata.stores.sqlite",
    "zbk.metadata.stores.tree_access",
    "zbk.metadata.stores.zookeeper",
    "zbk.metrics.routes",
    "zbk.metrics.serving",
)


def serve(first: socket.socket, listener: socket.socket) -> Request | None:
    """Fork a process for each request. Return the request there, and ``None`` here at the end.

    Requests come from the test process, whose end is the end, and from those who connect.
    """
    asking = {first.fileno(): first}
    children: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process id, receiver of status
    poller = select.poll()
    for one in (first, listener):
        poller.register(one, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd in children:
                poller.unregister(fd)
                _report_end(fd, *children.pop(fd))
                continue
            if fd == listener.fileno():
                one, _ = listener.accept()
                asking[one.fileno()] = one
                poller.register(one, select.POLLIN)
                continue
            received = receive_request(asking[fd])
            if received is None and fd == first.fileno():
                return None
            if received is None:
                poller.unregister(fd)
                asking.pop(fd).close()
                continue
            request, files = received
            pid = os.fork()
            if not pid:
                receivers = [receiver for _, receiver in children.values()]
                _become(request, files[:3], listener, [*asking.values(), *receivers])
                return request
            receiver = socket.socket(fileno=files.pop())
            for file in files:
                os.close(file)
            _send(receiver, pid)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = (pid, receiver)
            poller.register(pidfd, select.POLLIN)


def _report_end(pidfd: int, pid: int, receiver: socket.socket) -> None:
    os.close(pidfd)
    _send(receiver, os.waitpid(pid, 0)[1])
    receiver.close()


def _send(receiver: socket.socket, number: int) -> None:
    with suppress(OSError):  # the process that asked has ended
        send_number(receiver, number)


def _become(
    request: Request, files: Sequence[int], listener: socket.socket, others: Sequence[socket.socket]
) -> None:
    """Give the forked process its files, environment, folder and signals, and let it ask, too."""
    address, session_id = listener.getsockname(), os.getsid(0)
    for one in (listener, *others):  # their descriptors are closed next, and not again
        one.detach()
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
    _show_command([sys.executable, "-m", *sys.argv])
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
    warm_start.install_below(address, session_id)


def _show_command(words: Sequence[str]) -> None:
    """Show others the words as this process's command line, as far as there is room for them.

    Where the kernel refuses the write, that of the starter remains. Source: ``arg_start`` and
    ``arg_end`` in proc(5).
    """
    fields = Path("/proc/self/stat").read_text("ascii").rpartition(")")[2].split()
    start, end = map(int, fields[45:47])
    size = end - start
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    with suppress(OSError), Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(line[: size - 1].ljust(size, b"\0"))


def share_modules(names: Sequence[str]) -> None:
    """Import what processes share."""
    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def run(module: str) -> None:
    """Run a module as a program, and end the process as Python does, but for its own modules.

    A Python that ends clears its modules one by one. Here that copies every page that the process
    shares, and takes longer than most commands run. Threads are waited for, exit handlers run,
    objects that nothing refers to end, and what was printed is written. An end with a message or
    with an error, or with an output that cannot be written, is Python's own.
    """
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        sys.exit(code)
    os._exit(code & 0xFF)


def _compile_routes() -> None:
    """Compile the patterns of the admin API's routes, which takes an eighth of a bookie's start.

    The module ``re`` keeps them.
    """
    from starlette.routing import compile_path  # noqa: PLC0415 - to be shared

    from zbk.admin.operations import OPERATIONS  # noqa: PLC0415 - to be shared

    for operation in OPERATIONS:
        compile_path(operation.path)
    gc.freeze()


def main() -> None:
    """Import what is shared, then start processes until the test process closes the socket."""
    first, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    share_modules(PRELOADED)
    _compile_routes()
    request = serve(first, listener)
    if request is not None:
        run(request.module)


if __name__ == "__main__":
    main()
