"""A network of namespaces in which every place has a firewall: loss in any direction, by peer.

ZooKeeper, each bookie, autorecovery and two client machines have a namespace of their own, joined
by a bridge. Faults are rules of ``iptables`` in these namespaces, which name the peers that they
are about. The bridge's own address, where the harness is, is in no rule: the judge sees what is.

Needs root, ``ip`` and ``iptables``. Client places beyond the second share the two machines in turn.
"""

import shutil
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.chaos import namespaces
from tests.chaos.namespaces import METADATA, NamespaceNetwork
from tests.chaos.network import AUTORECOVERY, ZOOKEEPER
from tests.support.tcp_proxy import Direction
from zbk.cluster.zookeeper import LocalZooKeeper

CLIENT_HOST_COUNT = 2
ZOOKEEPER_PORT = 2181
_NUMBERS = {ZOOKEEPER: 2, AUTORECOVERY: 3}  # last numbers of their addresses
_FLAGS = {"INPUT": "-s", "OUTPUT": "-d"}
_LOSS = ("-m", "statistic", "--mode", "random", "--probability")
_RESET = ("REJECT", "--reject-with", "tcp-reset")


class FirewalledNetwork(NamespaceNetwork):
    """A namespace with a firewall for each place."""

    description = "a network namespace with a firewall for ZooKeeper, each bookie, autorecovery, "
    description += "and two clients"

    def __init__(self, bookie_count: int) -> None:
        self._ruled: set[str] = set()  # places with rules
        super().__init__(bookie_count, CLIENT_HOST_COUNT, _NUMBERS)

    # -------------------------------------------------------------- places

    def zookeeper(self, folder: Path) -> LocalZooKeeper:
        return LocalZooKeeper(
            folder,
            host=self._ips[ZOOKEEPER],
            port=ZOOKEEPER_PORT,
            run_in=super().command(ZOOKEEPER, []),
        )

    def metadata_uri(self, uri: str) -> str:
        return uri  # ZooKeeper has an address in this network

    def command(self, place: str, command: Sequence[str]) -> list[str]:
        return super().command(_host(place), command)

    @property
    def clients(self) -> list[str]:
        """The client machines."""
        return [place for place in self._ips if place.startswith("c")]

    @property
    def bookies(self) -> list[str]:
        """The bookies' machines."""
        return [place for place in self._ips if place.startswith("b")]

    def others(self, place: str) -> list[str]:
        """Return every other machine."""
        return [other for other in self._ips if other != place]

    # -------------------------------------------------------------- faults

    def isolate(self, index: int, *directions: Direction) -> None:
        bookie = f"b{index}"
        if not directions:
            self.drop(bookie, self.others(bookie))
        if "to_server" in directions:
            self.drop(bookie, self.clients, chains=("INPUT",))
        if "to_client" in directions:
            self.drop(bookie, self.clients, chains=("OUTPUT",))

    def part(self, client: str, other: str) -> None:
        self.drop(_host(client), [ZOOKEEPER if other == METADATA else other])

    def reset(self, index: int) -> None:
        """Answer a bookie's packets, and those to it, with resets, for a moment."""
        bookie = f"b{index}"
        for chain in _FLAGS:
            for other in self.others(bookie):
                self._add(bookie, chain, other, "-p", "tcp", "-j", *_RESET)
        self._flush(bookie)

    def drop(
        self,
        place: str,
        others: Collection[str],
        *,
        chains: Collection[str] = tuple(_FLAGS),
        share: float = 1.0,
    ) -> None:
        """Drop what a place receives from others, sends to them, or both; or a share of it."""
        chance = () if share >= 1.0 else (*_LOSS, str(share))
        for chain in chains:
            for other in others:
                self._add(place, chain, other, *chance, "-j", "DROP")

    def heal(self) -> None:
        for place in sorted(self._ruled):
            self._flush(place)

    # -------------------------------------------------------------- private

    def _add(self, place: str, chain: str, other: str, *rule: str) -> None:
        self._ruled.add(place)
        self._iptables(place, "-A", chain, _FLAGS[chain], self._ips[other], *rule)

    def _flush(self, place: str) -> None:
        self._iptables(place, "-F")
        self._ruled.discard(place)

    def _iptables(self, place: str, *arguments: str) -> None:
        command = self.command(place, ["iptables", "-w", *arguments])
        subprocess.run(command, check=True, capture_output=True, text=True)


def why_not() -> str:
    """Return why this machine has no such network for us; empty if it has."""
    reason = namespaces.why_not()
    if reason:
        return reason
    if shutil.which("iptables") is None:
        return "needs the program iptables (package iptables)"
    try:
        network = FirewalledNetwork(1)
    except subprocess.CalledProcessError as error:
        return f"no namespaces with bridges: {error.stderr.strip()}"
    try:
        network.drop("b0", network.clients, share=0.5)
        network.reset(0)
    except subprocess.CalledProcessError as error:
        return f"iptables has no rules for us: {error.stderr.strip()}"
    finally:
        network.close()
    return ""


def _host(place: str) -> str:
    """Return the machine of a place."""
    return f"c{int(place[1:]) % CLIENT_HOST_COUNT}" if place.startswith("c") else place
