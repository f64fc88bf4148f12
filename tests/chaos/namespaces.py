"""A network of Linux network namespaces: one for each place, joined by a bridge.

Needs root and ``ip`` with bridges and veth pairs; nothing else, no firewall. A place is taken off
the bridge (silent both ways), or gets a blackhole route towards another one (silent one way). TCP
notices neither until its own timers do, which is the point. Names carry our process id, so that
several runs do not meet.

    bridge  zbk<pid>        10.<200 + pid mod 50>.<pid mod 250>.1
    place   zbk<pid>-b0     .10 and on for bookies, .100 and on for clients
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.tcp_proxy import Direction, TcpProxy
from tests.support.waiting import wait_until
from zbk.cluster.zookeeper import LocalZooKeeper

BOOKIE_PORT = 3181
METADATA = "metadata"
NAME_HELD_S = 2.0


class NamespaceNetwork:
    """A bridge, and a namespace for each bookie and each client."""

    description = "a network namespace for each process"
    has_pairs = True

    def __init__(
        self, bookie_count: int, client_count: int, others: Mapping[str, int] | None = None
    ) -> None:
        """``others``: more places, with the last number of their addresses."""
        pid = os.getpid()
        self._bridge = f"zbk{pid}"
        prefix = f"10.{200 + pid % 50}.{pid % 250}"
        self._bridge_ip = f"{prefix}.1"
        self._ips = {f"b{n}": f"{prefix}.{10 + n}" for n in range(bookie_count)}
        self._ips |= {f"c{n}": f"{prefix}.{100 + n}" for n in range(client_count)}
        self._ips |= {place: f"{prefix}.{number}" for place, number in (others or {}).items()}
        self._off_bridge: set[str] = set()
        self._black_holes: set[tuple[str, str]] = set()  # at a place, towards an address
        self._relay: TcpProxy | None = None
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    # -------------------------------------------------------------- addresses

    def listen_address(self, index: int) -> str:
        return f"tcp://{self._ips[f'b{index}']}:{BOOKIE_PORT}"

    def advertised_address(self, index: int) -> str:
        return self.listen_address(index)

    def metadata_uri(self, uri: str) -> str:
        parts = urlsplit(uri)
        if parts.scheme != "zk":
            return uri  # a file: no network lies between
        if self._relay is None:
            assert parts.hostname is not None, "an address has a host"
            assert parts.port is not None, "ZooKeeper was started here at a port of its own"
            self._relay = TcpProxy((parts.hostname, parts.port), host=self._bridge_ip)
        return f"zk://{self._bridge_ip}:{self._relay.port}{parts.path}"

    def zookeeper(self, folder: Path) -> LocalZooKeeper:
        return LocalZooKeeper(folder)

    def command(self, place: str, command: Sequence[str]) -> list[str]:
        # not `ip netns exec`: that would keep copies of all mounts, and power loss unmounts
        return ["nsenter", f"--net=/run/netns/{self._name(place)}", *command]

    # -------------------------------------------------------------- faults

    def isolate(self, index: int, *directions: Direction) -> None:
        bookie = f"b{index}"
        clients = [place for place in self._ips if place.startswith("c")]
        if not directions:
            self._off_bridge.add(bookie)
            _ip("link", "set", self._link(bookie), "nomaster")
        if "to_server" in directions:
            for client in clients:
                self._black_hole(client, self._ips[bookie])
        if "to_client" in directions:
            for client in clients:
                self._black_hole(bookie, self._ips[client])

    def part(self, client: str, other: str) -> None:
        self._black_hole(client, self._bridge_ip if other == METADATA else self._ips[other])

    def reset(self, index: int) -> None:
        # nobody forges a reset without a firewall: a moment off the bridge loses packets
        bookie = f"b{index}"
        _ip("link", "set", self._link(bookie), "nomaster")
        _ip("link", "set", self._link(bookie), "master", self._bridge)

    def heal(self) -> None:
        for place in self._off_bridge:
            _ip("link", "set", self._link(place), "master", self._bridge)
        self._off_bridge.clear()
        for place, address in self._black_holes:
            _ip("-n", self._name(place), "route", "del", "blackhole", f"{address}/32")
        self._black_holes.clear()

    def close(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        for place in self._ips:
            _ip("netns", "del", self._name(place), is_checked=False)
        _ip("link", "del", self._bridge, is_checked=False)

    # -------------------------------------------------------------- private

    def _make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._bridge_ip}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for place, address in self._ips.items():
            name, link = self._name(place), self._link(place)
            _ip("netns", "add", name)
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", link, "master", self._bridge, "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "up")

    def _black_hole(self, place: str, address: str) -> None:
        if (place, address) not in self._black_holes:
            self._black_holes.add((place, address))
            _ip("-n", self._name(place), "route", "add", "blackhole", f"{address}/32")

    def _name(self, place: str) -> str:
        return f"{self._bridge}-{place}"

    def _link(self, place: str) -> str:
        return f"{self._bridge}{place}"  # at most 15 characters, as the kernel has it


def why_not() -> str:
    """Return why this machine has no namespaces for us; empty if it has."""
    if os.geteuid() != 0:
        return "needs root"
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"needs the program {program} (package {package})"
    probe = f"zbk{os.getpid()}-probe"
    try:
        _ip("netns", "add", probe)
        _ip("-n", probe, "link", "add", "probe", "type", "bridge")
        _ip("-n", probe, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
    except subprocess.CalledProcessError as error:
        return f"the kernel refuses: {error.stderr.strip()}"
    finally:
        _ip("netns", "del", probe, is_checked=False)
    return ""


def _ip(*arguments: str, is_checked: bool = True) -> None:
    """Run ``ip``. A namespace that is being deleted may still hold names that are created anew."""
    done: subprocess.CompletedProcess[str] | None = None

    def is_settled() -> bool:
        nonlocal done
        done = subprocess.run(
            ["ip", *arguments],  # noqa: S607 - found on the path, as the shell would
            check=False,
            capture_output=True,
            text=True,
        )
        return not is_checked or not done.returncode or "File exists" not in done.stderr

    wait_until(is_settled, NAME_HELD_S, f"ip {' '.join(arguments)}: its name is still held")
    assert done is not None
    if is_checked and done.returncode:
        error = subprocess.CalledProcessError(done.returncode, done.args, "", done.stderr)
        error.add_note(f"ip said: {done.stderr.strip()}")
        raise error
