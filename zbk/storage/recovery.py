"""Bringing journal records back into entry logs and index after a start.

Every record may have been applied before the crash, or not, or in part: applying is idempotent.
Runs in the owner's thread, once, before the bookie serves.

Source: BookKeeper's ``BookieImpl.readJournal``.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol, assert_never

from zbk.errors import EntryUnreadableError
from zbk.protocol.entry_batch import EntryBatch
from zbk.protocol.words import LedgerType
from zbk.storage.journal_record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedRecord,
)
from zbk.storage.ledger_info import LedgerInfo


class Presence(Enum):
    """What a bookie has of a batch."""

    NONE = "none"
    PART = "part"  # some entries, with the same bytes
    SAME = "same"  # all of them, with the same bytes
    OTHER = "other"  # at least one with other bytes


class ReplayTarget(Protocol):
    """What replay needs of storage."""

    def ledger_info(self, ledger_id: int) -> LedgerInfo | None:
        """Return what is known of a ledger."""
        ...

    def is_deleted(self, ledger_id: int) -> bool:
        """Tell whether a ledger was deleted, for ever."""
        ...

    def set_ledger_key(self, ledger_id: int, ledger_key: bytes, ledger_type: LedgerType) -> None:
        """Take in a ledger."""
        ...

    def set_fenced(self, ledger_id: int) -> None:
        """Note a fence."""
        ...

    def set_explicit_lac(self, ledger_id: int, lac: int) -> None:
        """Note a LAC."""
        ...

    def presence(self, batch: EntryBatch) -> Presence:
        """Tell what is there of a batch."""
        ...

    def missing_part(self, batch: EntryBatch) -> EntryBatch:
        """Return what is not there of a batch."""
        ...

    def add(self, batches: Sequence[EntryBatch]) -> None:
        """Store batches."""
        ...


class Replayer:
    """Applies records and counts."""

    def __init__(self, storage: ReplayTarget) -> None:
        self._storage = storage
        self.entry_count = 0  # stored again
        self.orphan_count = 0  # records of ledgers that are not here

    def apply(self, record: JournalRecord) -> None:
        """Bring one record into storage."""
        match record:
            case SyncedRecord():
                pass
            case LedgerKeyRecord(ledger_id, ledger_key, ledger_type):
                if self._storage.is_deleted(ledger_id):
                    self.orphan_count += 1
                else:
                    self._storage.set_ledger_key(ledger_id, ledger_key, ledger_type)
            case EntriesRecord(batch):
                if self._is_known(batch.ledger_id):
                    self._apply_entries(batch)
            case FenceRecord(ledger_id):
                if self._is_known(ledger_id):
                    self._storage.set_fenced(ledger_id)
            case ExplicitLacRecord(ledger_id, lac):
                if self._is_known(ledger_id):
                    self._storage.set_explicit_lac(ledger_id, lac)
            case _:
                assert_never(record)

    def _is_known(self, ledger_id: int) -> bool:
        if self._storage.ledger_info(ledger_id) is not None:
            return True
        self.orphan_count += 1  # deleted: its key record lies before the mark, its index is gone
        return False

    def _apply_entries(self, batch: EntryBatch) -> None:
        try:
            presence = self._storage.presence(batch)
        except EntryUnreadableError:
            presence = Presence.OTHER
        match presence:
            case Presence.SAME:
                return
            case Presence.PART:
                batch = self._storage.missing_part(batch)
            case Presence.NONE | Presence.OTHER:
                # other bytes, or none to be had: the entry log is damaged there. What the journal
                # has passed its checksums, and is what was promised
                pass
            case _:
                assert_never(presence)
        self._storage.add([batch])
        self.entry_count += batch.count
