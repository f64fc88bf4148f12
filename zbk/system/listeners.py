"""The TCP addresses that processes of this machine listen at, from Linux's ``/proc``.

The files of other users' processes are closed to all but root, so only the own processes have a
process id here.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

_LISTENING: Final = "0A"
_TABLES: Final = (("/proc/net/tcp", socket.AF_INET), ("/proc/net/tcp6", socket.AF_INET6))


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """A TCP address that a socket listens at."""

    host: str
    port: int
    inode: str  # of the socket


def listeners() -> Iterator[Listener]:
    """Yield the addresses that any process listens at."""
    for path, family in _TABLES:
        with suppress(OSError), open(path, encoding="ascii") as file:
            for line in list(file)[1:]:
                fields = line.split()
                if fields[3] == _LISTENING:
                    host, _, port = fields[1].rpartition(":")
                    yield Listener(
                        host=_host(host, family), port=int(port, base=16), inode=fields[9]
                    )


def owners_of(sockets: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    """Yield process id and inode for each of the sockets, given by inode, that a process has."""
    for pid in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not pid.isdecimal():
            continue
        with suppress(OSError):  # another user's process, or one that has just ended
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    kind, _, inode = os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")
                    if kind == "socket" and inode[1:-1] in sockets:
                        yield int(pid), inode[1:-1]


def python_listeners() -> list[tuple[int, Listener]]:
    """Return the addresses that Python programs listen at, with the id of a process of each."""
    by_inode = {one.inode: one for one in listeners()}
    owners = {inode: pid for pid, inode in owners_of(by_inode) if _is_python(pid)}
    return [(pid, by_inode[inode]) for inode, pid in owners.items()]


def command_line(pid: int) -> list[str]:
    """Return the program and the arguments of a process; empty: another user's, or it has ended."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return [os.fsdecode(one) for one in file.read().split(b"\0")[:-1]]
    return []


def _is_python(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
    except OSError:
        return False


def _host(digits: str, family: int) -> str:
    """Return the address that the kernel shows as words in the byte order of the machine.

    >>> import sys
    >>> _host("0100007F" if sys.byteorder == "little" else "7F000001", socket.AF_INET)
    '127.0.0.1'
    """
    words = (digits[at : at + 8] for at in range(0, len(digits), 8))
    raw = b"".join(socket.htonl(int(word, base=16)).to_bytes(4, "big") for word in words)
    return socket.inet_ntop(family, raw)
