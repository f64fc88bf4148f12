"""``PD_JOURNAL``: an acknowledged entry is on stable storage of an ack quorum.

The classic BookKeeper ledger: an acknowledged entry is confirmed, so the LAC is the last entry
acknowledged in order, and ``sync`` only waits for the adds in flight.

Source: "The BookKeeper protocol", section Writing to ledgers.
"""

from typing import Literal

from zbk.durability.sync_cursor import SyncCursor
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.lac_policy import LacPolicy


class AckedLac:
    """The LAC of a PD ledger: every acknowledged entry is durable."""

    __slots__ = ("_lac",)

    def __init__(self) -> None:
        self._lac = NO_ENTRY

    @property
    def lac(self) -> int:
        """The last entry acknowledged in order; -1 is none."""
        return self._lac

    def on_acked(self, last_acked_id: int) -> None:
        """Follow the acknowledged entries."""
        assert last_acked_id >= self._lac, "entries are acknowledged in order"
        self._lac = last_acked_id

    def on_synced(self, slot: int, incarnation: int, last_add_synced: int) -> None:
        """Change nothing: bookies keep no sync cursor of a PD ledger."""

    def on_replaced(self, slot: int, confirmed_id: int) -> None:
        """Change nothing: acknowledged entries stay acknowledged."""


class PdJournal:
    """Persistent durability, through the journal."""

    acknowledges_after: Literal["sync"] = "sync"
    is_journaled = True
    has_sync_cursor = False
    restart_revokes_acks = False  # acknowledged entries are on its disk

    def new_lac_policy(self, quorum: Quorum) -> LacPolicy:
        """Return the policy "acknowledged is confirmed"."""
        del quorum
        return AckedLac()

    def new_sync_cursor(self, last_add_synced: int = NO_ENTRY) -> SyncCursor | None:
        """Return ``None``: an answered add is synced."""
        del last_add_synced
        return None
