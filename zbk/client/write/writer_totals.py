"""Totals of all writers of one writer actor. The actor's thread counts, any thread may read."""

from zbk.protocol.entry.words import LedgerType


class AppendTotals:
    """What was acknowledged on ledgers of one type."""

    __slots__ = ("entry_count", "size")

    def __init__(self) -> None:
        self.entry_count = 0
        self.size = 0  # bytes, about: as they counted against the limits


class WriterTotals:
    """The totals. The keys never change."""

    def __init__(self) -> None:
        self.by_type = {ledger_type: AppendTotals() for ledger_type in LedgerType}
        self.failed_append_count = 0
        self.ensemble_change_count = 0
