"""What lies between clients and bookies, and how it breaks; here in user space, on any machine.

A *place* is where a process runs: ``b0`` the first bookie, ``c0`` the first client, ``a0`` the
autorecovery process, ``z0`` ZooKeeper. A network knows how to start a process at a place, and which
of its ways are cut. Every network can isolate a bookie, one way or both, and reset its connections.
To part one client from one bookie, or from the metadata, takes namespaces
(``tests/chaos/namespaces.py``); all else takes firewalls (``tests/chaos/firewall.py``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.support.tcp_proxy import Direction, TcpProxy
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.system.ports import free_ports

LOOPBACK = "127.0.0.1"
AUTORECOVERY = "a0"
ZOOKEEPER = "z0"


class Network(Protocol):
    """The ways between places. One thread uses it."""

    description: str
    has_pairs: bool  # whether ``part`` works

    def listen_address(self, index: int) -> str:
        """Return where a bookie listens."""
        ...

    def advertised_address(self, index: int) -> str:
        """Return where clients find a bookie."""
        ...

    def metadata_uri(self, uri: str) -> str:
        """Return how processes at places reach the store at ``uri``."""
        ...

    def zookeeper(self, folder: Path) -> LocalZooKeeper:
        """Return the ZooKeeper of this network, not started."""
        ...

    def command(self, place: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` at a place."""
        ...

    def isolate(self, index: int, *directions: Direction) -> None:
        """Cut a bookie off from all clients; what was sent waits or is lost, as in TCP."""
        ...

    def part(self, client: str, other: str) -> None:
        """Cut a client off from one bookie, or from ``metadata``."""
        ...

    def reset(self, index: int) -> None:
        """Cut all connections of a bookie, bytes under way and all; new ones work."""
        ...

    def heal(self) -> None:
        """Make every way whole."""
        ...

    def close(self) -> None:
        """Take everything down."""
        ...


class ProxiedNetwork:
    """Everything on loopback, with a proxy before each bookie."""

    description = "a TCP proxy before each bookie"
    has_pairs = False

    def __init__(self, bookie_count: int) -> None:
        self._ports = free_ports(bookie_count)
        self.proxies = [TcpProxy((LOOPBACK, port)) for port in self._ports]

    def listen_address(self, index: int) -> str:
        return f"tcp://{LOOPBACK}:{self._ports[index]}"

    def advertised_address(self, index: int) -> str:
        return f"tcp://{LOOPBACK}:{self.proxies[index].port}"

    def metadata_uri(self, uri: str) -> str:
        return uri

    def zookeeper(self, folder: Path) -> LocalZooKeeper:
        return LocalZooKeeper(folder)

    def command(self, place: str, command: Sequence[str]) -> list[str]:
        assert place, "every process has a place"
        return list(command)

    def isolate(self, index: int, *directions: Direction) -> None:
        self.proxies[index].block(*directions)

    def part(self, client: str, other: str) -> None:
        raise NotImplementedError(f"no way from {client} to {other} of its own: has_pairs is false")

    def reset(self, index: int) -> None:
        self.proxies[index].cut()

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.unblock()

    def close(self) -> None:
        for proxy in self.proxies:
            proxy.close()
