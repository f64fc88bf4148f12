"""Whether an address can be listened on, and which process has it, from Linux's ``/proc``."""

import errno
import random
import re
import socket
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Final

import msgspec

from zbk.config.http_address import HTTP_PORT_STEP
from zbk.system.listeners import listeners, owners_of

_LOOPBACK: Final = "127.0.0.1"
_EPHEMERAL_RANGE_PATH: Final = "/proc/sys/net/ipv4/ip_local_port_range"
_LASTING_PORT_MIN: Final = 10_000
_LASTING_TRIES: Final = 100
COMMAND_SIZE_MAX: Final = 120


class PortUse(msgspec.Struct, frozen=True):
    """What is known of one address."""

    is_free: bool
    reason: str = ""  # why the address cannot be used, if not because it is in use
    pid: int | None = None  # of the process that listens there; ``None``: none, or not known
    command: str = ""  # of that process


def port_use(host: str, port: int) -> PortUse:
    """Return whether a TCP address of this machine is free, and if not, which process has it."""
    error = _listen_error(host, port)
    if error is None:
        return PortUse(is_free=True)
    if error.errno != errno.EADDRINUSE:
        return PortUse(is_free=False, reason=error.strerror or str(error))
    pid = _owner(port)
    return PortUse(is_free=False, pid=pid, command="" if pid is None else _command(pid))


def is_free_port(port: int) -> bool:
    """Return whether a bookie can listen on a loopback port. 0 means any port."""
    return _listen_error(_LOOPBACK, port) is None


class PortLeases:
    """The loopback ports that a process keeps for its servers, though they may be down.

    A lease is a bound socket that does not listen. A server that allows the reuse of addresses, as
    ZeroMQ does, listens beside it. No other process gets the port from ``lasting_port`` meanwhile,
    and the kernel ends the lease with the process. Source: ``SO_REUSEADDR`` in socket(7).
    """

    def __init__(self) -> None:
        self._leases: dict[int, socket.socket] = {}

    def take(self, former: int = 0, taken: Collection[int] = ()) -> int:
        """Return the port for a server: the former one if nothing else has it; 0 if there is none.

        Args:
            former: the port that the server had; 0 if it never ran.
            taken: ports that are reserved already, though they are free.
        """
        if former and (former in self._leases or self._lease(former) or is_free_port(former)):
            return former  # the last case: connections of its former process are not forgotten yet
        for port in _lasting_ports():
            if port not in taken and self._lease(port):
                return port
        return 0

    def release(self) -> None:
        """End all leases. Twice is fine."""
        while self._leases:
            self._leases.popitem()[1].close()

    def __del__(self) -> None:
        self.release()

    def _lease(self, port: int) -> bool:
        """Bind a port that no socket has, not even one that does not listen."""
        lease = socket.socket()
        try:
            lease.bind((_LOOPBACK, port))
        except OSError:
            lease.close()
            return False
        lease.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # from now on, for the server
        self._leases[port] = lease
        return True


def lasting_port(taken: Collection[int] = ()) -> int:
    """Return a free loopback port that outgoing connections do not get; 0 if there is none.

    A server that starts again at its port needs one: the kernel gives a port of its ephemeral range
    to any connection while the server is away. Source: ``ip_local_port_range`` in ip(7). No such
    port is ``HTTP_PORT_STEP`` above another one: a bookie that starts may take that for its HTTP.

    Args:
        taken: ports that are reserved already, though they are free.
    """
    leases = PortLeases()
    try:
        return leases.take(taken=taken)
    finally:
        leases.release()


def free_ports(count: int) -> list[int]:
    """Return different free loopback ports for servers: lasting ones where there are any."""
    ports: list[int] = []
    with ExitStack() as stack:  # holds each probe, so that the kernel gives no port twice
        for _ in range(count):
            probe = stack.enter_context(socket.create_server((_LOOPBACK, 0)))
            ports.append(lasting_port(ports) or int(probe.getsockname()[1]))
    return ports


def _lasting_ports() -> Iterator[int]:
    """Yield ports outside the ephemeral range in random order, a bounded number of them."""
    choice = random.SystemRandom()
    stop = _first_ephemeral_port()
    for _ in range(_LASTING_TRIES if stop > _LASTING_PORT_MIN else 0):
        port = choice.randrange(_LASTING_PORT_MIN, stop)
        is_for_http = (port - _LASTING_PORT_MIN) // HTTP_PORT_STEP % 2
        if not is_for_http:
            yield port


def _first_ephemeral_port() -> int:
    try:
        with open(_EPHEMERAL_RANGE_PATH, encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):  # not Linux, or no /proc
        return 0


def _listen_error(host: str, port: int) -> OSError | None:
    name = "" if host in ("*", "0.0.0.0") else host.strip("[]")  # noqa: S104 - compared, not bound
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((name, port))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def _owner(port: int) -> int | None:
    sockets = {one.inode: one for one in listeners() if one.port == port}
    return next((pid for pid, _inode in owners_of(sockets)), None)


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4_096).split(b"\0")
    except OSError:
        return ""
    text = " ".join(word.decode("utf-8", "replace") for word in words if word)
    return re.sub(r"\s+", " ", text)[:COMMAND_SIZE_MAX]
