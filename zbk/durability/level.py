"""Durability levels: when an add is acknowledged, how the LAC advances, what sync means.

    ledger type   add is acknowledged after          LAC
    -----------   --------------------------------   ------------------------------------------
    PD_JOURNAL    Qa bookies have fsynced it         last entry acknowledged in order
    VD_JOURNAL    Qa bookies have written it to      highest entry synced on Qa bookies, by their
                  the operating system's page cache  ``LastAddSynced``
    VD_BYPASS_    the same, in entry logs alone: a   the same
    JOURNAL       bookie writes an entry once

The type is in the ledger's metadata and in every add, and never changes. A level is an object with
the interface below, which has a bookie's side and a client's side. A further level needs one new
module with such an object and a line in ``LEVELS``.

At every level fences, ledger keys and recovery adds are fsynced before the answer.

Source: the relaxed-durability proposal, sections Durability Level and Ledger Type.
"""

from typing import Final, Literal, Protocol, TypeAlias

from zbk.durability.pd_journal import PdJournal
from zbk.durability.sync_cursor import SyncCursor
from zbk.durability.vd_bypass_journal import VdBypassJournal
from zbk.durability.vd_journal import VdJournal
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.write.lac_policy import WriterLevel

AcknowledgesAfter: TypeAlias = Literal["write", "sync"]
"""``"write"``: the bytes are in the page cache; ``"sync"``: an fsync that began later returned."""


class DurabilityLevel(WriterLevel, Protocol):
    """One level, both sides. It has no state: ledgers share the object."""

    # -- the bookie's side

    @property
    def acknowledges_after(self) -> AcknowledgesAfter:
        """The step after which a bookie answers an ordinary add."""
        ...

    @property
    def is_journaled(self) -> bool:
        """True when ordinary adds go to the journal as well as to the entry log."""
        ...

    def new_sync_cursor(self, last_add_synced: int = NO_ENTRY) -> SyncCursor | None:
        """Return the sync cursor of one ledger at a bookie, or ``None`` if the level has none.

        ``last_add_synced`` is the end of the contiguous run of *durable* entries, or less.
        """
        ...


LEVELS: Final[dict[LedgerType, DurabilityLevel]] = {
    LedgerType.PD_JOURNAL: PdJournal(),
    LedgerType.VD_JOURNAL: VdJournal(),
    LedgerType.VD_BYPASS_JOURNAL: VdBypassJournal(),
}


def level_of(ledger_type: LedgerType) -> DurabilityLevel:
    """Return the level of a ledger type.

    >>> level_of(LedgerType.VD_JOURNAL).acknowledges_after
    'write'
    """
    return LEVELS[ledger_type]
