"""A whole bookie in this process, on a simulated disk, with metadata in memory."""

import itertools
from typing import Final, Unpack

import zbk
from tests.support.simulated_disk import SimulatedDisk
from tests.support.waiting import wait_until
from zbk.actors.identity.identity import init_identity
from zbk.actors.process.bookie import Bookie
from zbk.client.api import Client
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.config import BookieConfig
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.stores.connect import open_store

ONE: Final = LedgerOptions(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
"""How ledgers of the one bookie are made."""

_NUMBERS = itertools.count()


class BookieHere:
    """The bookie, and its clients."""

    def __init__(self, *, connection_idle_ms: int = 600_000, sync_interval_ms: int = 1_000) -> None:
        config = BookieConfig(
            metadata=f"memory://bookie-here-{next(_NUMBERS)}", journal_dir="/j", ledger_dir="/l",
            listen="tcp://127.0.0.1:0", journal_segment_size=1 << 20, disk_reserve_size=2 << 20,
            disk_warn_free="0", disk_readonly_free="0", boot_id="boot",
            connection_idle_ms=connection_idle_ms, sync_interval_ms=sync_interval_ms,
        )  # fmt: skip
        disk = SimulatedDisk()
        self.store = open_store(config.metadata)
        initialise(self.store)
        init_identity(disk, self.store, config)
        self.bookie = Bookie(config, disk)
        self.bookie_id = self.bookie.start().bookie_id
        self.config = config

    def connect(self, **options: Unpack[zbk.ClientOptions]) -> Client:
        return zbk.connect(self.config.metadata, **options)

    def wait_until_forgotten(self) -> None:
        """Return when the bookie knows no connection any more."""
        assert self.bookie._actors is not None
        counts = self.bookie._actors.front.counts
        wait_until(lambda: counts.peer_count == 0, what="the bookie forgets the connections")

    def close(self) -> None:
        self.bookie.request_stop()
        assert self.bookie.run_until_ended() == 0
        self.store.close()
