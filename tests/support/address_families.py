"""Run a program that can only open sockets of some families, as RestrictAddressFamilies does.

    python address_families.py "AF_INET AF_UNIX" PROGRAM ARGUMENT...

A seccomp filter refuses the others with EAFNOSUPPORT, in the program and in what it starts.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

SOCKET_CALL: Final = {"x86_64": 41, "aarch64": 198}

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
ALLOW, REFUSE = 0x7FFF_0000, 0x0005_0000 | errno.EAFNOSUPPORT
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2


def restrict(families: Sequence[int], socket_call: int) -> None:
    """Refuse sockets of other families from here on."""
    count = len(families)
    steps = [(LOAD, 0, 0, 0), (EQUAL, 0, count + 2, socket_call), (LOAD, 0, 0, 16)]
    steps += [(EQUAL, count - number, 0, one) for number, one in enumerate(families)]
    steps += [(RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in steps))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, MODE_FILTER, program, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    names, *command = sys.argv[1:]
    restrict([getattr(socket, name) for name in names.split()], SOCKET_CALL[platform.machine()])
    os.execvp(command[0], command)  # noqa: S606 - no shell
