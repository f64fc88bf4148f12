"""What the storage actor brings forth in one turn: answers, reads, and one ticket of the journal.

A *ticket* is what a group of journal records promises. Answers to clients travel with the group and
are sent by whoever writes it (VD) or syncs it; what has to be done in the storage actor first
comes back to it with ``Synced``: reads and sync cursors that wait for stable storage.

Owned by the storage actor; the request classes beside it fill it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from zbk.actors.journal import AppendGroup, Send, SyncProgress
from zbk.actors.ledger_table import LedgerSlot
from zbk.actors.read import Fetch
from zbk.errors import CorruptRecordError, StorageFailedError, ZbkError
from zbk.protocol.entry_batch import EntryBatch
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal_record import EntriesRecord, JournalRecord
from zbk.transport.router import Inbound, Outbound
from zbk.wire.codec import refusal
from zbk.wire.messages import Message, Refused


class FetchSink(Protocol):
    """Where reads go: the read actor's ref."""

    def tell(self, message: list[Fetch]) -> None:
        """Deliver without waiting."""
        ...


class JournalSink(Protocol):
    """Where records go: the journal actor's ref."""

    def tell(self, message: AppendGroup) -> None:
        """Deliver without waiting."""
        ...


class Stored:
    """Entries of a VD ledger that a ticket stored: its sync cursor will hear of them."""

    __slots__ = ("first", "last", "slot")

    def __init__(self, slot: LedgerSlot, first: int, last: int) -> None:
        self.slot = slot
        self.first = first
        self.last = last


class Ticket:
    """What one group of journal records promises."""

    __slots__ = (
        "after_sync",
        "after_write",
        "fenced",
        "fetches",
        "number",
        "quiesced",
        "stored",
        "syncs",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.after_write: list[Outbound] = []
        self.after_sync: list[Outbound] = []
        self.stored: list[Stored] = []
        self.fenced: list[LedgerSlot] = []
        self.fetches: list[Fetch] = []  # of fencing reads
        self.syncs: list[tuple[Inbound, LedgerSlot]] = []
        self.quiesced: list[Callable[[], None]] = []

    @property
    def is_waited_for(self) -> bool:
        """True when somebody outside waits until the ticket is on stable storage."""
        return bool(self.after_sync or self.fetches or self.fenced or self.syncs or self.quiesced)

    @property
    def is_sync_news(self) -> bool:
        """True when something is to be done here once the ticket is on stable storage."""
        return bool(self.stored or self.fetches or self.fenced or self.syncs or self.quiesced)


class Turn:
    """Gathers what the messages of a turn ask for; ``begin`` and ``end`` make a ticket of it."""

    def __init__(
        self,
        storage: BookieStorage,
        progress: SyncProgress,
        *,
        journal: Callable[[], JournalSink],
        reader: FetchSink,
        send: Send,
        incarnation: int,
    ) -> None:
        self._storage = storage
        self._progress = progress
        self._journal = journal
        self._reader = reader
        self._send = send
        self.incarnation = incarnation
        self._unsynced: deque[Ticket] = deque()
        self._records: list[JournalRecord] = []
        self._batches: list[EntryBatch] = []
        self._answers: list[Outbound] = []
        self._fetches: list[Fetch] = []
        self.ticket = Ticket(0)
        self.synced_ticket = 0  # as it was when the turn began: it may be more by now

    # -------------------------------------------------------------- filling it

    def answer(self, inbound: Inbound, answer: Message) -> None:
        """Answer at the end of the turn."""
        self._answers.append(Outbound(inbound, answer))

    def fetch(self, fetch: Fetch) -> None:
        """Read and answer, from the end of the turn on."""
        self._fetches.append(fetch)

    def refusal(self, inbound: Inbound, error: ZbkError) -> Refused:
        """Return the answer that carries an error."""
        return refusal(inbound.request.request_id, self.incarnation, error)

    def record(self, slot: LedgerSlot, record: JournalRecord) -> None:
        """Journal a change of a ledger."""
        self._records.append(record)
        slot.ticket = self.ticket.number

    def store(self, slot: LedgerSlot, batch: EntryBatch) -> None:
        """Store and journal entries that are new."""
        self._batches.append(batch)
        self._records.append(EntriesRecord(batch))
        slot.ticket = self.ticket.number

    def store_batches(self) -> None:
        """Have in storage what was to be stored up to now, so that the index knows of it.

        Raises:
            StorageFailedError: it is not there, and will be acknowledged: the bookie has to stop.
        """
        if self._batches:
            batches, self._batches = self._batches, []
            try:
                self._storage.add(batches)
            except CorruptRecordError as error:  # damaged since it was prepared
                raise StorageFailedError(error.args[0], "add", str(error)) from error

    # -------------------------------------------------------------- begin and end

    def begin(self) -> None:
        """Begin a ticket."""
        self.ticket = Ticket(self.ticket.number + 1)
        self.synced_ticket = self._progress.synced_ticket

    def end(self) -> None:
        """Store what was admitted and hand the records to the journal, as one ticket."""
        self.store_batches()
        ticket = self.ticket
        records, self._records = self._records, []
        if not (records or ticket.is_waited_for):
            return
        is_sync_news = ticket.is_sync_news
        if is_sync_news:
            self._unsynced.append(ticket)
        group = AppendGroup(
            ticket=ticket.number,
            records=records,
            size=sum(record.size for record in records),
            after_write=ticket.after_write,
            after_sync=ticket.after_sync,
            is_sync_news=is_sync_news,
            is_sync_needed=ticket.is_waited_for,
        )
        self._journal().tell(group)

    def take_synced(self, number: int) -> Sequence[Ticket]:
        """Return the tickets up to this one that something is to be done for, in their order."""
        synced = []
        while self._unsynced and self._unsynced[0].number <= number:
            synced.append(self._unsynced.popleft())
        return synced

    def send(self) -> None:
        """Send what is ready, in lists."""
        if self._fetches:
            fetches, self._fetches = self._fetches, []
            self._reader.tell(fetches)
        if self._answers:
            answers, self._answers = self._answers, []
            self._send(answers)
