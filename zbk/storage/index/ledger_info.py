"""The state of a ledger in a bookie's storage, without its entries."""

from typing import Final

import msgspec

from zbk.protocol.entry.words import NO_ENTRY, LedgerType

CODE_OF_LEDGER_TYPE: Final = {
    LedgerType.PD_JOURNAL: 1,
    LedgerType.VD_JOURNAL: 2,
    LedgerType.VD_BYPASS_JOURNAL: 3,
}
"""Ledger types on disk. A code is never reused for another type."""

LEDGER_TYPE_OF_CODE: Final = {code: kind for kind, code in CODE_OF_LEDGER_TYPE.items()}


class LedgerInfo(msgspec.Struct, frozen=True):
    """One ledger, as it is in memory; the journal makes it durable."""

    ledger_id: int
    ledger_key: bytes
    ledger_type: LedgerType
    is_fenced: bool = False
    explicit_lac: int = NO_ENTRY
    last_add_synced: int = NO_ENTRY  # a floor for the sync cursor; all entries up to it are synced
    last_entry_id: int = NO_ENTRY  # the highest id in the index

    @property
    def is_bare(self) -> bool:
        """True if there is only its key: no entry, no LAC, no fence."""
        is_empty = (self.last_entry_id, self.explicit_lac) == (NO_ENTRY, NO_ENTRY)
        return is_empty and not self.is_fenced
