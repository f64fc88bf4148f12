"""The cluster under test: bookies, metadata store, client processes, and what can be done to them.

Bookies are ``LocalCluster``'s, each at a place of the network and, where there is power to lose, on
a disk of its own. The harness reaches the metadata past the network, so that it sees what is.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import msgspec

from tests.chaos.client import Spec
from tests.chaos.metadata_history import NodeVersion, SqliteHistory, ZooKeeperHistory
from tests.chaos.network import AUTORECOVERY, Network
from tests.chaos.power import PowerDisk
from tests.support.waiting import wait_until
from zbk.cluster.child import Child
from zbk.cluster.local import LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.errors import BookieError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.connect import open_store

SESSION_TIMEOUT_MS = 2_000
ZOOKEEPER_ROOT = "/zbk"
BOOKIE_OPTIONS: Mapping[str, int | str] = {
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "checkpoint_interval_ms": 1_500,  # often, so that faults meet them
    "journal_segment_size": 4 * 1024 * 1024,
    "entry_log_size_max": 4 * 1024 * 1024,
    "ledger_cache_size": 256 * 1024,
    "sync_interval_ms": 700,
    "limbo_grace_ms": 3_000,
}
"""Small limits: what is rare in a long run is common in a short one."""

READY_TIMEOUT_S: Final = 60.0

AUTORECOVERY_OPTIONS: Mapping[str, int | str] = {
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "lost_bookie_delay_ms": 4_000,
    "brake_window_ms": 2_000,
    "brake_hold_ms": 2_000,
    "open_ledger_grace_ms": 3_000,
    "repair_retry_ms_max": 2_000,
}


class PlacedCluster(LocalCluster):
    """A ``LocalCluster`` whose bookies run at places of a network, maybe on disks of their own."""

    def __init__(
        self,
        folder: Path,
        bookie_count: int,
        metadata: str,
        network: Network,
        disks: Sequence[PowerDisk],
    ) -> None:
        super().__init__(
            folder,
            bookie_count=bookie_count,
            metadata=metadata,
            bookie_options=BOOKIE_OPTIONS,
            bookie_flags=("--insecure",),  # in a namespace it does not listen on loopback
        )
        self._network = network
        self._disks = disks
        self._wiped: set[int] = set()  # that are told so when they start

    def directories(self, index: int) -> list[Path]:
        """Return the folders of a bookie's files."""
        options = self._bookie_options(index, 0)
        return [Path(str(options[name])) for name in ("journal_dir", "ledger_dir")]

    def restart_or_refuse(self, index: int) -> bool:
        """Start a bookie; return whether it serves, or has refused to.

        Raises:
            BookieError: it does neither in time.
        """
        try:
            self.restart(index)
        except BookieError:
            if self._children[index].exit_code is None:
                raise
            self._is_expected_down.add(index)
            return False
        return True

    def restart_wiped(self, index: int) -> None:
        """Start a bookie and tell it that its data are gone for good."""
        self._wiped.add(index)
        try:
            self.restart(index)
        finally:
            self._wiped.discard(index)

    def _bookie_options(self, index: int, port: int) -> dict[str, int | str]:
        options = super()._bookie_options(index, port) | {
            "metadata": self._network.metadata_uri(self.metadata_uri),
            "listen": self._network.listen_address(index),
            "advertise": self._network.advertised_address(index),
        }
        if self._disks:
            disk = self._disks[index]
            options |= {
                "journal_dir": f"{disk.folder}/journal",
                "ledger_dir": f"{disk.folder}/ledgers",
                "boot_id": f"boot-{disk.boot_count}",  # the real one stays when the power is cut
            }
        return options

    def _bookie_command(self, index: int, port: int) -> list[str]:
        command = super()._bookie_command(index, port)
        if index in self._wiped:
            command.append("--wiped-on-purpose")
        return self._network.command(f"b{index}", command)

    def _autorecovery_command(self, options: Mapping[str, int | str]) -> list[str]:
        placed = {"metadata": self._network.metadata_uri(self.metadata_uri), **options}
        return self._network.command(AUTORECOVERY, super()._autorecovery_command(placed))


class ChaosCluster:
    """Everything that runs. One thread uses it."""

    def __init__(
        self,
        folder: Path,
        network: Network,
        *,
        bookie_count: int,
        use_zookeeper: bool,
        has_power: bool,
        has_autorecovery: bool = False,
    ) -> None:
        self.has_autorecovery = has_autorecovery
        self.folder = folder
        self.network = network
        self.zookeeper: LocalZooKeeper | None = None
        self.disks: list[PowerDisk] = []
        self._bookie_count = bookie_count
        self._use_zookeeper = use_zookeeper
        self._has_power = has_power
        self._exit = ExitStack()
        self.bookies: PlacedCluster
        self.ledgers: LedgerStore
        self._history: SqliteHistory | ZooKeeperHistory

    def __enter__(self) -> Self:
        self._exit.callback(self.network.close)
        try:
            self._start()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(self, *_details: object) -> None:
        self._exit.close()

    # -------------------------------------------------------------- what runs

    @property
    def uri(self) -> str:
        """The metadata's address past the network."""
        return self.bookies.metadata_uri

    @property
    def fragile_index(self) -> int:
        """The number of the only bookie whose files vanish."""
        return self._bookie_count - 1

    @property
    def indexes(self) -> range:
        """The bookies' numbers."""
        return range(self._bookie_count)

    def start_client(self, place: str, spec: Spec) -> Child:
        """Start a client process at a place."""
        placed = msgspec.structs.replace(spec, uri=self.network.metadata_uri(self.uri))
        command = [sys.executable, "-m", "tests.chaos.client", msgspec.json.encode(placed).decode()]
        log = self.folder / f"client-{spec.name}.log"
        return Child(f"client {spec.name}", self.network.command(place, command), log)

    def metadata_versions(self) -> Iterator[NodeVersion]:
        """Yield every version of every node, so far."""
        return self._history.versions()

    # -------------------------------------------------------------- power

    def lose_power(self, indexes: Iterable[int]) -> None:
        """Cut the disks of some bookies off, all at once, and end the bookies."""
        gone = list(indexes)
        for index in gone:
            self.disks[index].lose_power()
        for index in gone:
            self.bookies.kill(index)

    def power_on(self, index: int) -> None:
        """Start one of them again, on what its disk kept."""
        self.disks[index].power_on()
        self.bookies.restart(index)

    # -------------------------------------------------------------- private

    def _start(self) -> None:
        self.folder.mkdir(parents=True)
        uri = self._start_metadata()
        for index in self.indexes if self._has_power else ():
            disk = PowerDisk(self.folder / f"disk{index}.ext4", self.folder / f"disk{index}")
            self._exit.callback(disk.unmount)
            self.disks.append(disk)
        self.bookies = PlacedCluster(
            self.folder / "data", self._bookie_count, uri, self.network, self.disks
        )
        self._exit.enter_context(self.bookies)
        if self.has_autorecovery:
            self.bookies.start_autorecovery(AUTORECOVERY_OPTIONS)
            wait_until(self._is_autorecovery_ready, READY_TIMEOUT_S, "autorecovery is ready")
        store = open_store(uri)
        self._exit.callback(store.close)
        self.ledgers = LedgerStore(store)

    def _is_autorecovery_ready(self) -> bool:
        """Return whether it has started: a process that finds no metadata store exits instead."""
        child = self.bookies.autorecovery
        assert child is not None, "it was started"
        return any("READY" in line for line in child.log_tail())

    def _start_metadata(self) -> str:
        if not self._use_zookeeper:
            uri = f"sqlite://{self.folder}/metadata.db"
            open_store(uri).close()  # makes the tables
            self._history = SqliteHistory(uri)
            return uri
        self.zookeeper = self.network.zookeeper(self.folder / "zookeeper")
        self._exit.callback(self.zookeeper.stop)
        self.zookeeper.start()
        self._history = ZooKeeperHistory(self.folder / "zookeeper" / "data", ZOOKEEPER_ROOT)
        return self.zookeeper.uri(ZOOKEEPER_ROOT)
