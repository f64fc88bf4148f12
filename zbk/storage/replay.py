"""Bringing journal records back into entry logs and index after a start.

Every record may have been applied before the crash, or not, or in part: applying is idempotent.

Batches that have to be stored are stored in groups, one write to the entry log for many records.
A batch that may overlap one that waits is looked at only when that one is stored.
Runs in the owner's thread, once, before the bookie serves.

Source: BookKeeper's ``BookieImpl.readJournal``.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol, assert_never

from zbk.errors import EntryUnreadableError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.index.ledger_info import LedgerInfo
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
    SyncedRecord,
)

GROUP_COUNT_MAX: Final = 512  # batches stored together
GROUP_SIZE_MAX: Final = 4 * 1024 * 1024  # bytes of them, and one more batch


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
        """Return whether a ledger was deleted, for ever."""
        ...

    def set_ledger_key(self, ledger_id: int, ledger_key: bytes, ledger_type: LedgerType) -> None:
        """Record a ledger."""
        ...

    def take_in_lost(self, ledger_id: int) -> bool:
        """Record a ledger whose index was lost; false if it was not, or was deleted."""
        ...

    def set_fenced(self, ledger_id: int) -> None:
        """Note a fence."""
        ...

    def set_explicit_lac(self, ledger_id: int, lac: int) -> None:
        """Note a LAC."""
        ...

    def presence(self, batch: EntryBatch) -> Presence:
        """Return what is there of a batch."""
        ...

    def missing_part(self, batch: EntryBatch) -> EntryBatch:
        """Return what is not there of a batch."""
        ...

    def add(self, batches: Sequence[EntryBatch]) -> None:
        """Store batches."""
        ...


class Replayer:
    """Applies records and counts. ``finish`` comes last."""

    def __init__(self, storage: ReplayTarget) -> None:
        self._storage = storage
        self.entry_count = 0  # stored again
        self.orphan_count = 0  # records of ledgers that are not here
        self._known: set[int] = set()  # ledgers that are here: none goes meanwhile
        self._waiting: list[EntryBatch] = []
        self._waiting_size = 0
        self._waiting_until: dict[int, int] = {}  # by ledger: the highest id that waits

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

    def finish(self) -> None:
        """Store what still waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._waiting_size = 0
            self._waiting_until.clear()
            self._storage.add(waiting)

    def _is_known(self, ledger_id: int) -> bool:
        if ledger_id in self._known:
            return True
        if self._storage.ledger_info(ledger_id) is not None:
            self._known.add(ledger_id)
            return True
        if self._storage.take_in_lost(ledger_id):
            self._known.add(ledger_id)
            return True
        self.orphan_count += 1  # deleted: its key record lies before the mark, its index is gone
        return False

    def _apply_entries(self, batch: EntryBatch) -> None:
        if batch.first_entry_id <= self._waiting_until.get(batch.ledger_id, -1):
            self.finish()  # storage has to know of what came before
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
        self._waiting.append(batch)
        self._waiting_size += batch.size
        self._waiting_until[batch.ledger_id] = batch.last_entry_id
        self.entry_count += batch.count
        if len(self._waiting) >= GROUP_COUNT_MAX or self._waiting_size >= GROUP_SIZE_MAX:
            self.finish()
