"""The Python that Spark calls in tests, forked warm: ``tests.support.spark_python`` makes it.

This process stands for the one that the starter forks: it forwards SIGTERM, by which Spark ends a
worker, and ends as that ends. It runs without ``site``, with the standard library only.
"""

import json
import os
import select
import signal
import socket
import sys

STARTER = ""  # its address: the copy that Spark calls has it


def main() -> None:
    """Run ``-m MODULE ARGUMENTS`` with the files, folder and environment of this process."""
    if sys.argv[1:2] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    request = {
        "module": sys.argv[2],
        "arguments": sys.argv[3:],
        "environment": {**os.environ, "ZBK_TEST_STAND_IN": str(os.getpid())},
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than this to run
        "has_session": False,
    }
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as starter:
        starter.connect(f"\0{STARTER}")
        socket.send_fds(starter, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
    theirs.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # the other process has them
        os.dup2(nothing, number)
    pid = int.from_bytes(ours.recv(8, socket.MSG_WAITALL), "little")
    has_arrived, arrived = os.pipe()
    os.set_blocking(arrived, False)
    signal.set_wakeup_fd(arrived)
    signal.signal(signal.SIGTERM, lambda received, _: os.kill(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    while ours.fileno() not in select.select([ours.fileno(), has_arrived], [], [])[0]:
        os.read(has_arrived, 64)
    code = os.waitstatus_to_exitcode(int.from_bytes(ours.recv(8, socket.MSG_WAITALL), "little"))
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


main()
