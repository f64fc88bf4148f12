"""What the storage actor brings forth in one turn: answers, reads, and a ticket of each journal.

A *ticket* is what a group of journal records promises. Answers to clients travel with the group and
are sent by whoever writes it (VD) or syncs it; what has to be done in the storage actor first
comes back to it with ``Synced``: reads and sync cursors that wait for stable storage.

A *lane* is what a turn has for one journal. Tickets are counted in each by themselves: a ledger has
its records in one journal, and what is promised of it is counted there.

What is added is in no ticket before it is in storage: on a full disk the adds of a turn are refused
as if they had not come, but those of recoveries, for which the reserve is tried.

Owned by the storage actor; the request classes beside it fill it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from zbk.actors.messages import Sink
from zbk.actors.serve.journal import AppendGroup, Send, SyncProgress
from zbk.actors.serve.lac_watches import LacWatches
from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.actors.serve.read import Fetch
from zbk.actors.serve.refusals import refusal_of
from zbk.actors.space_gate import SpaceGate
from zbk.durability.level import AcknowledgesAfter
from zbk.errors import (
    CorruptRecordError,
    NoSpaceError,
    OutOfDescriptorsError,
    StorageFailedError,
    ZbkError,
)
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, ExplicitLacRecord, JournalRecord
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import AddAnswer, Message, Refused


class JournalSink(Protocol):
    """Where records go: the journal actor."""

    def tell(self, group: AppendGroup) -> None:
        """Deliver without waiting."""
        ...

    def take(self, group: AppendGroup) -> None:
        """Deliver the only group of a turn; wait for it where that is quicker."""
        ...


class AddCounts(msgspec.Struct):
    """What was added; written by the actor's thread."""

    batch_count: int = 0
    entry_count: int = 0
    size: int = 0


class Admitted(msgspec.Struct, frozen=True):
    """An add that is to be stored, and what follows once it is."""

    inbound: Inbound
    slot: LedgerSlot
    batch: EntryBatch
    answer: AddAnswer
    answers_after: AcknowledgesAfter
    recorded_lac: int | None  # the LAC that a start would find in it; None: it is not the last one
    is_recovery: bool
    has_cursor: bool


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


class Lane:
    """One journal, as the storage actor sees it."""

    __slots__ = ("handed_size", "progress", "records", "synced_ticket", "ticket", "unsynced")

    def __init__(self, progress: SyncProgress) -> None:
        self.progress = progress
        self.handed_size = 0  # bytes of all records that the journal actor got
        self.records: list[JournalRecord] = []  # of the ticket
        self.ticket = Ticket(0)
        self.synced_ticket = 0  # as it was when the turn began: it may be more by now
        self.unsynced: deque[Ticket] = deque()  # for which something is to be done once they are

    def begin(self) -> None:
        """Begin a ticket."""
        self.ticket = Ticket(self.ticket.number + 1)
        self.synced_ticket = self.progress.synced_ticket

    def end(self) -> AppendGroup | None:
        """Return the ticket as a group, if there is anything in it."""
        ticket = self.ticket
        records, self.records = self.records, []
        is_waited_for = ticket.is_waited_for
        if not (records or is_waited_for):
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
        )
        self.handed_size += group.size
        return group


class Turn:
    """Gathers what the messages of a turn ask for; ``begin`` and ``end`` make tickets of it."""

    def __init__(
        self,
        storage: BookieStorage,
        progresses: Sequence[SyncProgress],
        *,
        journals: Callable[[], Sequence[JournalSink]],
        reader: Sink[list[Fetch]],
        send: Send,
        space: SpaceGate,
        watches: LacWatches,
        incarnation: int,
    ) -> None:
        self._storage = storage
        self._watches = watches
        self._lanes = [Lane(progress) for progress in progresses]
        self._journals = journals
        self._reader = reader
        self._send = send
        self._space = space
        self.incarnation = incarnation
        self.counts = AddCounts()
        self._admitted: list[Admitted] = []
        self._answers: list[Outbound] = []
        self._fetches: list[Fetch] = []

    def lane(self, slot: LedgerSlot) -> Lane:
        """Return what the turn has for a ledger's journal."""
        return self._lanes[slot.journal_no]

    # -------------------------------------------------------------- filling it

    def answer(self, inbound: Inbound, answer: Message) -> None:
        """Answer at the end of the turn."""
        self._answers.append(Outbound(inbound, answer))

    def is_synced(self, slot: LedgerSlot) -> bool:
        """Return whether everything of a ledger is on stable storage."""
        return slot.ticket <= self.lane(slot).synced_ticket

    def answer_when_synced(self, slot: LedgerSlot, inbound: Inbound, answer: Message) -> None:
        """Answer at the end of the turn, or when everything of a ledger is on stable storage."""
        if self.is_synced(slot):
            self.answer(inbound, answer)
        else:
            self.lane(slot).ticket.after_sync.append(Outbound(inbound, answer))

    def fetch(self, fetch: Fetch) -> None:
        """Read and answer, from the end of the turn on."""
        self._fetches.append(fetch)

    def refusal(self, inbound: Inbound, error: ZbkError) -> Refused:
        """Return the answer that carries an error."""
        return refusal_of(inbound, self.incarnation, error)

    def record_lac(self, slot: LedgerSlot, lac: int) -> None:
        """Journal an explicit LAC."""
        self.record(slot, ExplicitLacRecord(slot.ledger_id, lac))
        lane = self._lanes[slot.journal_no]
        slot.ledger.lac_recorded(lac, lane.ticket.number, lane.synced_ticket)
        self._watches.recorded(slot)

    def record(self, slot: LedgerSlot, record: JournalRecord) -> None:
        """Journal a change of a ledger."""
        lane = self._lanes[slot.journal_no]
        lane.records.append(record)
        slot.ticket = lane.ticket.number

    @property
    def waiting_size(self) -> int:
        """Bytes of records that were handed to journals, or will be, and are not written yet."""
        admitted_size = sum(EntriesRecord(one.batch).size for one in self._admitted)
        recorded_size = sum(record.size for lane in self._lanes for record in lane.records)
        handed_size = sum(one.handed_size - one.progress.written_size for one in self._lanes)
        return handed_size + recorded_size + admitted_size

    def store(self, admitted: Admitted) -> None:
        """Store and journal entries that are new, and answer when that is done."""
        self._admitted.append(admitted)
        slot = admitted.slot
        slot.ticket = self._lanes[slot.journal_no].ticket.number

    def store_batches(self) -> None:
        """Store what was to be stored up to now, or refuse it: the index knows of it.

        Raises:
            StorageFailedError: nobody knows what is there: the bookie has to stop.
        """
        if self._admitted:
            admitted, self._admitted = self._admitted, []
            if len(self._storage.directories) == 1:
                self._store(self._storage.directories[0], admitted)
            else:  # what finds no space in one ledger directory may find it in another
                by_home: dict[LedgerDirectory, list[Admitted]] = {}
                for one in admitted:
                    by_home.setdefault(one.slot.stored.home, []).append(one)
                for home, some in by_home.items():
                    self._store(home, some)

    def _store(self, home: LedgerDirectory, admitted: Sequence[Admitted]) -> None:
        failure = self._add(home, admitted)
        if failure is not None:
            recoveries = [one for one in admitted if one.is_recovery]
            # the reserve has been released: it is for them
            failure = self._add(home, recoveries) if recoveries else failure
            for one in admitted:
                if failure is not None or not one.is_recovery:
                    self._refuse(one, failure)

    def _add(self, home: LedgerDirectory, admitted: Sequence[Admitted]) -> NoSpaceError | None:
        """Store adds; return why not: there was room for all of them or for none."""
        try:
            home.add([one.batch for one in admitted], [one.slot.stored.index for one in admitted])
        except NoSpaceError as error:
            return error
        except CorruptRecordError as error:  # damaged since it was prepared
            raise StorageFailedError(error.where, "add", str(error)) from error
        for one in admitted:
            self._note_stored(one)
        return None

    def _note_stored(self, one: Admitted) -> None:
        batch, slot = one.batch, one.slot
        lane = self._lanes[slot.journal_no]
        ticket = lane.ticket
        lane.records.append(EntriesRecord(batch))
        if one.recorded_lac is not None:
            slot.ledger.lac_recorded(one.recorded_lac, ticket.number, lane.synced_ticket)
            self._watches.recorded(slot)
        answers = ticket.after_write if one.answers_after == "write" else ticket.after_sync
        answers.append(Outbound(one.inbound, one.answer))
        if one.has_cursor:
            ticket.stored.append(Stored(slot, batch.first_entry_id, batch.last_entry_id))
        self.counts.batch_count += 1
        self.counts.entry_count += batch.count
        self.counts.size += len(batch.body)

    def _refuse(self, one: Admitted, failure: NoSpaceError | None) -> None:
        with suppress(OutOfDescriptorsError):  # the id is a bound then: what follows is looked up
            one.slot.last_entry_id = one.slot.stored.index.last_entry_id
        is_busy = isinstance(failure, OutOfDescriptorsError)
        error = failure if failure is not None and is_busy else self._space.refusal()
        self.answer(one.inbound, self.refusal(one.inbound, error))

    # -------------------------------------------------------------- begin and end

    def begin(self) -> None:
        """Begin a ticket of each journal."""
        self._storage.begin_turn()
        for lane in self._lanes:
            lane.begin()

    def when_synced(self, done: Callable[[], None]) -> None:
        """Call ``done`` once everything up to now is on stable storage, in all journals."""
        left = list(self._lanes)

        def one_done() -> None:
            left.pop()
            if not left:
                done()

        for lane in self._lanes:
            lane.ticket.quiesced.append(one_done)

    def end(self) -> None:
        """Store what was admitted and hand the records to the journals, as a ticket of each."""
        self.store_batches()
        # before the journals: a "no such entry" must not follow the acknowledgement of that entry
        self.send()
        groups = [(number, lane.end()) for number, lane in enumerate(self._lanes)]
        handed = [(number, group) for number, group in groups if group is not None]
        if handed:
            journals = self._journals()
            if len(handed) == 1:
                number, group = handed[0]
                journals[number].take(group)
            else:
                for number, group in handed:  # they write at the same time
                    journals[number].tell(group)

    def take_synced(self, journal_no: int, number: int) -> Sequence[Ticket]:
        """Return a journal's tickets up to this one that something is to be done for, in order."""
        unsynced = self._lanes[journal_no].unsynced
        synced = []
        while unsynced and unsynced[0].number <= number:
            synced.append(unsynced.popleft())
        return synced

    def send(self) -> None:
        """Send what is ready, in lists."""
        if self._fetches:
            fetches, self._fetches = self._fetches, []
            self._reader.tell(fetches)
        if self._answers:
            answers, self._answers = self._answers, []
            self._send(answers)
