"""The command ``zbk`` in shells of tests, run by the starter: ``warm_start.make_command`` makes it.

This process stands for the one that the starter forks: it forwards signals, and ends as that ends.
It runs without ``site``, so it has the standard library only, and costs a tenth of a cold ``zbk``.
"""

import json
import os
import select
import signal
import socket
import sys

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Run ``zbk`` with the arguments, files, folder and environment of this process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job: the starter has none
        os.execv(sys.executable, [sys.executable, "-m", "zbk", *sys.argv[1:]])  # noqa: S606
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    request = {
        "module": "zbk",
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than this to run
        "has_session": False,
    }
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as starter:
        starter.connect(f"\0{os.environ['WARM_STARTER']}")
        socket.send_fds(starter, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
    theirs.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # the other process has them
        os.dup2(nothing, number)
    pid = int.from_bytes(ours.recv(8, socket.MSG_WAITALL), "little")
    has_arrived, arrived = os.pipe()
    os.set_blocking(arrived, False)
    signal.set_wakeup_fd(arrived)
    for number in FORWARDED:
        signal.signal(number, lambda received, _: os.kill(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    while ours.fileno() not in select.select([ours.fileno(), has_arrived], [], [])[0]:
        os.read(has_arrived, 64)
    status = int.from_bytes(ours.recv(8, socket.MSG_WAITALL), "little")
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


main()
