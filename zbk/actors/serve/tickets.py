"""Tickets: the promise of one group of journal records, and those that wait for a sync.

Each journal has its own tickets, counted from 1. All records of a ledger go to one journal, and a
promise about the ledger is a ticket of that journal.

Owned by the storage actor (``zbk.actors.serve.turn``).
"""

import threading
from collections import deque
from typing import TYPE_CHECKING

from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.actors.serve.read import Fetch
from zbk.actors.serve.sync_queue import AppendGroup, SyncProgress
from zbk.durability.synced_run import SyncedRun
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import JournalRecord
from zbk.transport.inbound import Inbound, Outbound

if TYPE_CHECKING:
    from zbk.tracing.request_spans import RequestSpan


class Stored:
    """Entries of a VD ledger in a ticket: its sync cursor moves over them after the sync."""

    __slots__ = ("run", "slot")

    def __init__(self, slot: LedgerSlot, run: SyncedRun) -> None:
        self.slot = slot
        self.run = run


class Quiescing:
    """A stop that waits until so many journals have synced their tickets."""

    def __init__(self, is_quiet: threading.Event, journal_count: int) -> None:
        self._is_quiet = is_quiet
        self._left_count = journal_count

    def synced(self) -> None:
        """Record that one journal has synced its ticket."""
        self._left_count -= 1
        if not self._left_count:
            self._is_quiet.set()


class Ticket:
    """The promise of one group of journal records."""

    __slots__ = (
        "after_sync",
        "after_write",
        "fenced",
        "fetches",
        "number",
        "quiesced",
        "spans",
        "stored",
        "sync_types",
        "syncs",
        "write_types",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.after_write: list[Outbound] = []
        self.after_sync: list[Outbound] = []
        self.write_types: tuple[LedgerType, ...] = ()  # of ledgers with adds in ``after_write``
        self.sync_types: tuple[LedgerType, ...] = ()  # and in ``after_sync``
        self.stored: list[Stored] = []
        self.fenced: list[LedgerSlot] = []
        self.fetches: list[Fetch] = []  # of fencing reads
        self.syncs: list[tuple[Inbound, LedgerSlot]] = []
        self.quiesced: list[Quiescing] = []
        self.spans: list[RequestSpan] = []  # of the requests that are traced

    @property
    def is_waited_for(self) -> bool:
        """True when a client or a stop waits until the ticket is on stable storage."""
        return bool(self.after_sync or self.fetches or self.fenced or self.syncs or self.quiesced)

    @property
    def is_sync_news(self) -> bool:
        """True when the storage actor has work once the ticket is on stable storage."""
        return bool(self.stored or self.fetches or self.fenced or self.syncs or self.quiesced)


class JournalTickets:
    """The tickets of one journal: the one that is being filled, and those that wait for a sync."""

    __slots__ = (
        "awaited_size",
        "filled",
        "handed_size",
        "progress",
        "records",
        "synced_number",
        "unsynced",
    )

    def __init__(self, progress: SyncProgress) -> None:
        self.progress = progress
        self.handed_size = 0  # bytes of all records that the journal actor got
        self.awaited_size = 0  # of these, bytes of tickets whose sync is waited for
        self.filled = Ticket(0)
        self.records: list[JournalRecord] = []  # of that ticket
        self.synced_number = 0  # when the turn began; the journal may be further by now
        self.unsynced: deque[Ticket] = deque()  # that mean work here after their sync

    def begin(self) -> None:
        """Begin a ticket."""
        self.filled = Ticket(self.filled.number + 1)
        self.synced_number = self.progress.synced_ticket

    def end(self, received_us: int, lone_count: int) -> AppendGroup | None:
        """Return the ticket as a group; ``None`` if it is empty."""
        ticket = self.filled
        records, self.records = self.records, []
        is_waited_for = ticket.is_waited_for
        if not (records or is_waited_for or ticket.after_write):
            return None
        is_sync_news = ticket.is_sync_news
        if is_sync_news:
            self.unsynced.append(ticket)
        group = AppendGroup(
            ticket=ticket.number,
            records=records,
            size=sum(record.size for record in records),
            after_write=ticket.after_write,
            after_sync=ticket.after_sync,
            is_sync_news=is_sync_news,
            is_sync_needed=is_waited_for,
            received_us=received_us,
            lone_count=lone_count,
            spans=ticket.spans,
            write_types=ticket.write_types,
            sync_types=ticket.sync_types,
        )
        self.handed_size += group.size
        if is_waited_for:
            self.awaited_size += group.size
        return group
