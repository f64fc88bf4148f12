"""The load of a benchmark that writes, and its ledgers."""

from enum import StrEnum

import msgspec

from zbk.client.api import Client
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.protocol.entry.words import LedgerType


class Api(StrEnum):
    """The call of the writer that is measured."""

    MANY = "many"
    ASYNC = "async"
    SYNC = "sync"


class WriteLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The entries to write. Counts and rate are totals of all ledgers."""

    entry_size: int = 100  # bytes of payload
    entry_count: int = 1_000_000
    seconds: float = 0.0  # time to write, instead of ``entry_count``; 0: until all are written
    ledger_type: LedgerType = LedgerType.PD_JOURNAL
    api: Api = Api.MANY
    batch_count: int = 1_000  # entries in one ``append_many``
    window: int = 64  # calls that may be unanswered
    outstanding: int = 0  # appends kept unanswered in each ledger; 0: ``window`` counts
    rate: float = 0.0  # offered entries a second; 0: as fast as possible
    ledger_count: int = 1  # written at once, each by a thread, or by answers (``outstanding``)
    idle_ledger_count: int = 0  # other open ledgers
    neighbor_type: LedgerType | None = None  # of a ledger that gets single entries meanwhile
    has_own_neighbor_client: bool = False  # that ledger is written by a client in another process
    roll_entry_count: int = 0  # entries after which a writer continues in a new ledger; 0: never
    ensemble_size: int = 3
    write_quorum_size: int = 3
    ack_quorum_size: int = 2

    @property
    def call_entry_count(self) -> int:
        """Entries in one call."""
        return self.batch_count if self.api is Api.MANY else 1


def create_ledger(client: Client, load: WriteLoad) -> LedgerWriter:
    """Create one ledger of a load."""
    return client.create_ledger(
        ensemble_size=load.ensemble_size,
        write_quorum_size=load.write_quorum_size,
        ack_quorum_size=load.ack_quorum_size,
        ledger_type=load.ledger_type,
        custom_metadata={"purpose": b"bench"},
    )
