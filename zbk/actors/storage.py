"""The storage actor: admits requests, keeps entries and index, answers when the promise is kept.

mailbox     Requests, from the front; Synced, from the journal actors; RunInStorage, from the
            checkpoint actor; Quiesce, when the bookie stops
answers     clients, through the front or by way of the journal, when the ledger's type says so
owns        BookieStorage (entry logs, index), LedgerTable (the rules' view of each ledger)
on failure  the bookie stops

Order of an add, as in the seed: entry log, index, journal, answer. All adds that arrived together
are one gathered write to the entry log and one ticket of the journal. The answers of adds travel
with their records and are sent by whoever writes (VD) or syncs (PD) them; what the sync cursor
has to hear first comes back with Synced: answers to SYNC, and the cursors themselves.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, assert_never

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.checkpoint import RunInStorage
from zbk.actors.journal import AppendGroup, Send, Synced
from zbk.actors.ledger_table import LedgerSlot, LedgerTable
from zbk.actors.read import Fetch
from zbk.durability.level import level_of
from zbk.errors import (
    DuplicateEntryError,
    EntryTooLargeError,
    MalformedMessageError,
    NoSuchEntryError,
    NoSuchLedgerError,
    StorageFailedError,
    ZbkError,
)
from zbk.protocol.entry import entry_overhead_size
from zbk.protocol.entry_batch import COUNT_MAX, EntryBatch, sizes_from_wire
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal_record import (
    EntriesRecord,
    ExplicitLacRecord,
    JournalRecord,
    LedgerKeyRecord,
)
from zbk.storage.recovery import Presence
from zbk.transport.router import Inbound, Outbound
from zbk.wire.codec import decode_ids, refusal
from zbk.wire.messages import (
    Add,
    AddAnswer,
    GetBookieInfo,
    GetLedgerInfo,
    Hello,
    LacAnswer,
    LedgerInfo,
    Message,
    Ping,
    Read,
    ReadLac,
    Sync,
    SyncAnswer,
    WriteLac,
)

READ_COUNT_MAX: Final = 65_536
LEDGER_INFO_RANGE_COUNT_MAX: Final = 1_000
LEDGER_INFO_ENTRY_COUNT_MAX: Final = 1_000_000


class Requests(msgspec.Struct, frozen=True):
    """What the front received in one turn."""

    batch: list[Inbound]


class Quiesce(msgspec.Struct, frozen=True):
    """Call ``done`` when everything received before is on stable storage and answered."""

    done: Callable[[], None]


StorageMessage: TypeAlias = Requests | Synced | Quiesce | RunInStorage


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


class AddCounts(msgspec.Struct):
    """What was added; written by the actor's thread."""

    batch_count: int = 0
    entry_count: int = 0
    size: int = 0


class _Stored:
    """Entries of a VD ledger that a ticket stored: its sync cursor will hear of them."""

    __slots__ = ("first", "last", "slot")

    def __init__(self, slot: LedgerSlot, first: int, last: int) -> None:
        self.slot = slot
        self.first = first
        self.last = last


class _Ticket:
    """What one group of journal records promises."""

    __slots__ = ("after_sync", "after_write", "number", "quiesced", "stored", "syncs")

    def __init__(self, number: int) -> None:
        self.number = number
        self.after_write: list[Outbound] = []
        self.after_sync: list[Outbound] = []
        self.stored: list[_Stored] = []
        self.syncs: list[tuple[Inbound, LedgerSlot]] = []
        self.quiesced: list[Callable[[], None]] = []

    @property
    def is_sync_news(self) -> bool:
        """True when something is to be done here once the ticket is on stable storage."""
        return bool(self.stored or self.syncs or self.quiesced)


class StorageActor(BookieActor):
    """Admits, stores, answers."""

    def __init__(
        self,
        storage: BookieStorage,
        *,
        journal: Callable[[], JournalSink],
        reader: FetchSink,
        send: Send,
        about: Callable[[int], Message],
        incarnation: int,
        entry_size_max: int,
        read_size_max: int,
        stop_bookie: StopBookie,
    ) -> None:
        super().__init__(stop_bookie)
        self._storage = storage
        self._ledgers = LedgerTable(storage)
        self._journal = journal
        self._reader = reader
        self._send = send
        self._about = about
        self._incarnation = incarnation
        self._entry_size_max = entry_size_max
        self._read_size_max = read_size_max
        self._number = 0
        self._unsynced: deque[_Ticket] = deque()
        self._ticket = _Ticket(0)
        self._records: list[JournalRecord] = []
        self._batches: list[EntryBatch] = []
        self._answers: list[Outbound] = []
        self._fetches: list[Fetch] = []
        self.counts = AddCounts()

    @property
    def ledger_count(self) -> int:
        """How many ledgers are in the table."""
        return len(self._ledgers)

    def handle(self, message: StorageMessage) -> None:
        """Dispatch; then send what is ready, in lists."""
        match message:
            case Requests():
                self._on_requests(message.batch)
            case Synced():
                self._on_synced(message.ticket)
            case Quiesce():
                self._begin_ticket()
                self._ticket.quiesced.append(message.done)
                self._end_ticket(is_barrier=True)
            case RunInStorage():
                self._ledgers.keep_cursors()  # a checkpoint may write them down
                message.step()
            case _:
                assert_never(message)
        if self._fetches:
            fetches, self._fetches = self._fetches, []
            self._reader.tell(fetches)
        if self._answers:
            answers, self._answers = self._answers, []
            self._send(answers)

    # -------------------------------------------------------------- requests

    def _on_requests(self, batch: Sequence[Inbound]) -> None:
        self._begin_ticket()
        for inbound in batch:
            try:
                self._on_request(inbound)
            except StorageFailedError:
                raise  # this is no answer: the bookie stops
            except ZbkError as error:
                refused = refusal(inbound.request.request_id, self._incarnation, error)
                self._answers.append(Outbound(inbound, refused))
        self._end_ticket(is_barrier=False)

    def _on_request(self, inbound: Inbound) -> None:
        request = inbound.request
        match request:
            case Add():
                self._add(inbound, request)
            case Read():
                self._read(inbound, request)
            case ReadLac():
                self._read_lac(inbound, request)
            case WriteLac():
                self._write_lac(inbound, request)
            case Sync():
                self._sync(inbound, request)
            case GetLedgerInfo():
                self._ledger_info(inbound, request)
            case GetBookieInfo():
                self._answers.append(Outbound(inbound, self._about(request.request_id)))
            case Hello() | Ping():
                raise MalformedMessageError("the front answers this itself")
            case _:
                assert_never(request)

    def _add(self, inbound: Inbound, request: Add) -> None:
        batch = _batch_of(request, inbound.frames, self._entry_size_max)
        slot = self._ledgers.find_or_new(request.ledger_id)
        ledger = slot.ledger
        try:
            is_key_new = ledger.admit_add(
                request.ledger_key, request.ledger_type, is_recovery=False
            )
        except ZbkError:
            self._ledgers.drop_if_new(slot)
            raise
        if is_key_new:
            self._storage.set_ledger_key(request.ledger_id, request.ledger_key, request.ledger_type)
            self._records.append(
                LedgerKeyRecord(request.ledger_id, request.ledger_key, request.ledger_type)
            )
        ledger.added(request.lac)
        answer = AddAnswer(
            request_id=request.request_id,
            incarnation=self._incarnation,
            last_add_synced=ledger.last_add_synced,  # it may be more when the answer leaves
        )
        self._storage.prepare(batch)
        if batch.first_entry_id <= slot.last_entry_id:
            missing = self._missing_part(batch, slot)
            if missing is None:
                # sent again: it is there, and answered like a sync, once it is surely durable
                self._ticket.after_sync.append(Outbound(inbound, answer))
                return
            batch = missing
        self._batches.append(batch)
        self._records.append(EntriesRecord(batch))
        slot.last_entry_id = max(slot.last_entry_id, batch.last_entry_id)
        if ledger.acknowledges_after(is_recovery=False) == "write":
            self._ticket.after_write.append(Outbound(inbound, answer))
        else:
            self._ticket.after_sync.append(Outbound(inbound, answer))
        if level_of(request.ledger_type).has_sync_cursor:
            slot.on_its_way_count += 1
            self._ticket.stored.append(_Stored(slot, batch.first_entry_id, batch.last_entry_id))
        self.counts.batch_count += 1
        self.counts.entry_count += batch.count
        self.counts.size += len(batch.body)

    def _missing_part(self, batch: EntryBatch, slot: LedgerSlot) -> EntryBatch | None:
        """Return what of the batch is not stored, or ``None`` if all of it is, byte for byte.

        Raises:
            DuplicateEntryError: an id is stored with other bytes.
        """
        self._store_batches()  # the index has to know what came just before
        match self._storage.presence(batch):
            case Presence.NONE:
                return batch
            case Presence.PART:
                return self._storage.missing_part(batch)
            case Presence.SAME:
                return None
            case Presence.OTHER:
                raise DuplicateEntryError(slot.ledger_id, batch.first_entry_id)

    def _read(self, inbound: Inbound, request: Read) -> None:
        slot = self._known(request.ledger_id, request.ledger_key)
        entry_ids: Sequence[int]
        if request.is_striped:
            if len(inbound.frames) != 1:
                raise MalformedMessageError("a striped read has one frame of entry ids")
            entry_ids = decode_ids(inbound.frames[0], READ_COUNT_MAX)
        else:
            if request.last_entry_id < request.first_entry_id:
                raise MalformedMessageError("a read ends before it begins")
            stop = min(request.last_entry_id + 1, request.first_entry_id + READ_COUNT_MAX)
            entry_ids = range(request.first_entry_id, stop)
        size_max = min(request.size_max, self._read_size_max)
        resolved = self._storage.resolve(request.ledger_id, entry_ids, size_max)
        if resolved is None:
            raise NoSuchEntryError(request.ledger_id, entry_ids[0])
        self._fetches.append(Fetch(inbound, resolved, slot.ledger.lac))

    def _read_lac(self, inbound: Inbound, request: ReadLac) -> None:
        slot = self._known(request.ledger_id, request.ledger_key)
        answer = LacAnswer(
            request_id=request.request_id, incarnation=self._incarnation, lac=slot.ledger.lac
        )
        self._answers.append(Outbound(inbound, answer))

    def _write_lac(self, inbound: Inbound, request: WriteLac) -> None:
        slot = self._known(request.ledger_id, request.ledger_key)
        slot.ledger.added(request.lac)
        self._storage.set_explicit_lac(request.ledger_id, slot.ledger.lac)
        self._records.append(ExplicitLacRecord(request.ledger_id, slot.ledger.lac))
        answer = LacAnswer(
            request_id=request.request_id, incarnation=self._incarnation, lac=slot.ledger.lac
        )
        self._ticket.after_sync.append(Outbound(inbound, answer))

    def _sync(self, inbound: Inbound, request: Sync) -> None:
        slot = self._known(request.ledger_id, request.ledger_key)
        slot.ledger.added(request.lac)
        self._ticket.syncs.append((inbound, slot))

    def _ledger_info(self, inbound: Inbound, request: GetLedgerInfo) -> None:
        slot = self._ledgers.find(request.ledger_id)
        answer = LedgerInfo(
            request_id=request.request_id, incarnation=self._incarnation, is_known=False
        )
        if slot is not None:
            ranges, next_entry_id = self._storage.held_ranges(
                request.ledger_id,
                request.first_entry_id,
                range_count_max=LEDGER_INFO_RANGE_COUNT_MAX,
                entry_count_max=LEDGER_INFO_ENTRY_COUNT_MAX,
            )
            answer = msgspec.structs.replace(
                answer,
                is_known=True,
                is_fenced=slot.ledger.is_fenced,
                lac=slot.ledger.lac,
                last_entry_id=slot.last_entry_id,
                last_add_synced=slot.ledger.last_add_synced,
                ranges=ranges,
                next_entry_id=next_entry_id,
            )
        self._answers.append(Outbound(inbound, answer))

    def _known(self, ledger_id: int, ledger_key: bytes) -> LedgerSlot:
        """Return a ledger that this bookie has, after a look at the key.

        Raises:
            NoSuchLedgerError: it has none of it.
            UnauthorizedError: the key is another one.
        """
        slot = self._ledgers.find(ledger_id)
        if slot is None:
            raise NoSuchLedgerError(ledger_id)
        slot.ledger.check_key(ledger_key)
        return slot

    # -------------------------------------------------------------- promises

    def _begin_ticket(self) -> None:
        self._number += 1
        self._ticket = _Ticket(self._number)

    def _store_batches(self) -> None:
        if self._batches:
            batches, self._batches = self._batches, []
            self._storage.add(batches)

    def _end_ticket(self, *, is_barrier: bool) -> None:
        """Store what was admitted and hand the records to the journal, as one ticket."""
        self._store_batches()
        ticket = self._ticket
        records, self._records = self._records, []
        is_sync_needed = bool(ticket.after_sync or ticket.syncs or is_barrier)
        if not (records or is_sync_needed):
            return
        if ticket.is_sync_news:
            self._unsynced.append(ticket)
        group = AppendGroup(
            ticket=ticket.number,
            records=records,
            size=sum(record.size for record in records),
            after_write=ticket.after_write,
            after_sync=ticket.after_sync,
            is_sync_news=ticket.is_sync_news,
            is_sync_needed=is_sync_needed,
        )
        self._journal().tell(group)

    def _on_synced(self, number: int) -> None:
        while self._unsynced and self._unsynced[0].number <= number:
            ticket = self._unsynced.popleft()
            for stored in ticket.stored:
                stored.slot.on_its_way_count -= 1
                stored.slot.ledger.synced(stored.first, stored.last)
                self._ledgers.cursor_moved(stored.slot)
            for inbound, slot in ticket.syncs:
                answer = SyncAnswer(
                    request_id=inbound.request.request_id,
                    incarnation=self._incarnation,
                    last_add_synced=slot.ledger.last_add_synced,
                )
                self._answers.append(Outbound(inbound, answer))
            for done in ticket.quiesced:
                done()


def _batch_of(request: Add, frames: Sequence[bytes], entry_size_max: int) -> EntryBatch:
    """Return the batch of an add, checked as far as a bookie checks it.

    Raises:
        MalformedMessageError: frames, counts, sizes or checksum do not fit.
        EntryTooLargeError: an entry is over this bookie's limit.
    """
    if len(frames) != 2 + request.is_striped:
        raise MalformedMessageError(f"an add of {len(frames)} frames")
    sizes = sizes_from_wire(frames[0])
    entry_ids: Sequence[int]
    if request.is_striped:
        entry_ids = decode_ids(frames[2], COUNT_MAX)
    else:
        entry_ids = range(request.first_entry_id, request.first_entry_id + request.count)
    if entry_ids[0] != request.first_entry_id or len(entry_ids) != request.count:
        raise MalformedMessageError("an add whose ids are not those of its header")
    batch = EntryBatch(request.ledger_id, entry_ids, sizes, frames[1], request.checksum)
    batch.validate()
    batch.verify()
    if batch.size > entry_size_max:  # seldom: only then it is worth to look at each
        overhead_size = entry_overhead_size(batch.body)
        if max(sizes) > entry_size_max + overhead_size:
            raise EntryTooLargeError(max(sizes) - overhead_size, entry_size_max)
    return batch
