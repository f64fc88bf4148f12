"""The two journal actors: one writes, one syncs, so that a group is written while another syncs.

``JournalActor``
    mailbox     AppendGroup, from the storage actor, in order; NoteSynced, from the ticker
    answers     Written, once the records are in the page cache, to the storage actor
    owns        the write side of the Journal

``JournalSyncActor``
    mailbox     Flush, from the journal actor; SyncDue, from the ticker
    answers     Synced, once everything up to a ticket is on stable storage, to the storage actor
    owns        the sync side of the Journal

A *ticket* numbers the groups of the storage actor. Groups form by themselves: whatever queued
while the last write, or the last fsync, was under way goes together in the next one. An fsync
covers exactly the groups that were written before it began.

On failure the bookie stops: after a failed write or fsync nothing can be promised.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias, assert_never

import msgspec
import pykka

from zbk.actors.base import BookieActor, StopBookie
from zbk.storage.journal_record import JournalRecord

WRITE_SIZE_MAX: Final = 8 * 1024 * 1024
"""Bytes of one gathered write: more waits for the next."""


class JournalFile(Protocol):
    """What the actors need of the journal. ``append`` and ``sync`` may run at the same time."""

    def append(self, records: Sequence[JournalRecord]) -> object:
        """Write records to the page cache, in order."""
        ...

    def note_synced(self) -> None:
        """Write the evidence of the last sync, when no record has come to carry it."""
        ...

    def sync(self) -> object:
        """Return once everything appended before this call is on stable storage."""
        ...


class AppendGroup(msgspec.Struct, frozen=True):
    """Records to write under one ticket; none is a barrier."""

    ticket: int
    records: Sequence[JournalRecord]
    size: int  # bytes
    is_sync_needed: bool  # somebody waits for the fsync


class NoteSynced(msgspec.Struct, frozen=True):
    """Time to write down what was synced last, if nothing else is to be written."""


class Flush(msgspec.Struct, frozen=True):
    """Everything up to this ticket has been written."""

    ticket: int
    size: int
    is_sync_needed: bool


class SyncDue(msgspec.Struct, frozen=True):
    """Time to sync what nobody waits for."""


class Written(msgspec.Struct, frozen=True):
    """Everything up to this ticket is in the page cache."""

    ticket: int


class Synced(msgspec.Struct, frozen=True):
    """Everything up to this ticket is on stable storage."""

    ticket: int


class ProgressSink(Protocol):
    """Where the news go: a pykka ref in a bookie, a list in a test."""

    def tell(self, message: Written | Synced) -> None:
        """Deliver without waiting."""
        ...


WriteMessage: TypeAlias = AppendGroup | NoteSynced
SyncMessage: TypeAlias = Flush | SyncDue


class JournalActor(BookieActor):
    """Writes groups; does not wait for the disk."""

    def __init__(
        self,
        journal: JournalFile,
        storage: ProgressSink,
        syncer: "pykka.ActorRef[JournalSyncActor]",
        stop_bookie: StopBookie,
    ) -> None:
        super().__init__(stop_bookie)
        self._journal = journal
        self._storage = storage
        self._syncer = syncer
        self._groups: list[AppendGroup] = []
        self._size = 0

    def on_receive(self, message: WriteMessage) -> None:
        """Join the group; write when nobody else waits to join, or it is large."""
        match message:
            case AppendGroup():
                self._groups.append(message)
                self._size += message.size
            case NoteSynced():
                if not self._groups:
                    self._journal.note_synced()
                    return
            case _:
                assert_never(message)
        if self._size >= WRITE_SIZE_MAX or self.actor_inbox.empty():
            self._write()

    def _write(self) -> None:
        groups, self._groups = self._groups, []
        size, self._size = self._size, 0
        records = [record for group in groups for record in group.records]
        if records:
            self._journal.append(records)
        ticket = groups[-1].ticket
        is_sync_needed = any(group.is_sync_needed for group in groups)
        self._syncer.tell(Flush(ticket, size, is_sync_needed))
        self._storage.tell(Written(ticket))


class JournalSyncActor(BookieActor):
    """Calls fsync: at once for whoever waits, else when it is due."""

    def __init__(
        self,
        journal: JournalFile,
        storage: ProgressSink,
        unsynced_size_max: int,
        stop_bookie: StopBookie,
    ) -> None:
        super().__init__(stop_bookie)
        self._journal = journal
        self._storage = storage
        self._unsynced_size_max = unsynced_size_max
        self._written_ticket = 0
        self._synced_ticket = 0
        self._unsynced_size = 0
        self._is_sync_needed = False
        self.sync_count = 0

    def on_receive(self, message: SyncMessage) -> None:
        """Note what was written; sync when somebody waits for it."""
        match message:
            case Flush():
                self._written_ticket = message.ticket
                self._unsynced_size += message.size
                self._is_sync_needed |= message.is_sync_needed
                is_much = self._unsynced_size >= self._unsynced_size_max
                if (self._is_sync_needed and self.actor_inbox.empty()) or is_much:
                    self._sync()
            case SyncDue():
                if self._synced_ticket < self._written_ticket:
                    self._sync()
            case _:
                assert_never(message)

    def _sync(self) -> None:
        ticket = self._written_ticket  # only what was written before the fsync begins counts
        self._is_sync_needed = False
        self._unsynced_size = 0
        self._journal.sync()
        self.sync_count += 1
        self._synced_ticket = ticket
        self._storage.tell(Synced(ticket))
