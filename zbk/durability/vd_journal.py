"""``VD_JOURNAL``: an acknowledged entry is in the page cache of an ack quorum of bookies.

It survives the crash of any bookie process, but not the loss of power of an ack quorum of machines.
The LAC covers only entries that an ack quorum has synced; ``sync`` makes it catch up.

Decisions: the proposal has no striping, because with E > Qw a slot's ``LastAddSynced`` says nothing
about entries that it does not store. Here a bookie is told the stripe of its slot and judges only
what is due there (``striped_cursor``). A client computes the LAC by write sets (``synced_lac``).

The proposal has no ensemble change either. Here the writer changes its ensemble at LAC + 1, as on a
PD ledger. A new bookie first receives the entries of its slot that are acknowledged, not durable,
and on no ack quorum without it (``write.catch_up``), and a client that is not the writer records a
LAC before it reports it (``outside_sync``).

A restart takes what a bookie acknowledged and did not sync. The writer keeps the entries beyond the
LAC (``write.write_window``), and sends them to the bookie again, so they count there once more.

Source: the relaxed-durability proposal.
"""

from typing import Literal

from zbk.durability.sync_cursor import SyncCursor
from zbk.durability.synced_lac import SyncedLac
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.lac_policy import LacPolicy


class SyncedLacPolicy:
    """The LAC of a VD ledger: the end of what an ack quorum has synced. Acks do not move it."""

    __slots__ = ("_synced",)

    def __init__(self, quorum: Quorum) -> None:
        self._synced = SyncedLac(quorum)

    @property
    def lac(self) -> int:
        """Every entry up to this id is on stable storage of an ack quorum; -1 is none."""
        return self._synced.lac

    def on_acked(self, last_acked_id: int) -> None:
        """Change nothing: acknowledged entries may still be volatile."""

    def on_synced(self, slot: int, incarnation: int, last_add_synced: int) -> None:
        """Record one bookie's ``LastAddSynced``; a new incarnation voids its earlier ones."""
        self._synced.update(slot, incarnation, last_add_synced)

    def on_replaced(self, slot: int, confirmed_id: int) -> None:
        """Drop the value of the bookie that was in the slot."""
        self._synced.replaced(slot, confirmed_id)


class VdJournal:
    """Volatile durability, through the journal."""

    acknowledges_after: Literal["write"] = "write"
    is_journaled = True
    has_sync_cursor = True
    restart_revokes_acks = True

    def new_lac_policy(self, quorum: Quorum) -> LacPolicy:
        """Return the policy "synced on an ack quorum is confirmed"."""
        return SyncedLacPolicy(quorum)

    def new_sync_cursor(self, last_add_synced: int = NO_ENTRY) -> SyncCursor | None:
        """Return a cursor that starts at the end of the durable entries."""
        return SyncCursor(last_add_synced)
