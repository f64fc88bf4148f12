"""Output of one storage-actor turn: answers, reads, and a ticket of each journal.

A *ticket* is the promise of one group of journal records (``zbk.actors.serve.tickets``). Answers to
clients travel with the group and are sent by the actor that writes it (VD) or syncs it. Reads and
sync cursors that wait for stable storage come back to the storage actor with ``Synced``.

An add enters a ticket only after it is in storage: on a full disk the adds of a turn are refused as
if they had not come. For those of recoveries the reserve is tried.

Owned by the storage actor; the request classes of this package fill it.
"""

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress

from zbk.actors.serve.add_counts import AddCounts
from zbk.actors.serve.admitted import Admitted
from zbk.actors.serve.lac_watches import LacWatches
from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.actors.serve.log_syncs import LogSyncs, Placed, UnsyncedEntries, Wait
from zbk.actors.serve.parts import ServeParts
from zbk.actors.serve.read import Fetch
from zbk.actors.serve.refusals import answerable, refusal_of
from zbk.actors.serve.tickets import JournalTickets, Quiescing, Stored, Ticket
from zbk.durability.level import AcknowledgesAfter
from zbk.durability.synced_run import SyncedRun
from zbk.errors import (
    CorruptRecordError,
    NoSpaceError,
    OutOfDescriptorsError,
    StorageFailedError,
    ZbkError,
)
from zbk.metrics.buckets import Buckets
from zbk.metrics.refusals import Refusals
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.entry_logs.location import split_location
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    JournalRecord,
    SyncedEntriesRecord,
)
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.system.clock import monotonic_us
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import LacAnswer, Message, Refused


class Turn:
    """Gathers the output of a turn; ``begin`` and ``end`` make tickets of it."""

    def __init__(
        self, storage: BookieStorage, parts: ServeParts, watches: LacWatches, incarnation: int
    ) -> None:
        self._storage = storage
        self._watches = watches
        self._tickets = [JournalTickets(progress) for progress in parts.progresses]
        self._journals = parts.journals
        self._reader = parts.reader
        self._send = parts.send
        self._space = parts.space
        self.audit = parts.audit
        self.incarnation = incarnation
        self.counts = AddCounts()
        self.refusals = Refusals()
        self.queue_times = Buckets()  # of requests, from the front to the turn
        self._received_us = 0
        self._lone_count = 1
        self._admitted: list[Admitted] = []
        self._answers: list[Outbound] = []
        self._fetches: list[Fetch] = []
        self.log_syncs = LogSyncs(storage.directories, parts.sync_logs)

    def ticket(self, slot: LedgerSlot) -> Ticket:
        """Return the ticket of this turn in a ledger's journal."""
        return self._tickets[slot.journal_no].filled

    def synced_ticket(self, slot: LedgerSlot) -> int:
        """Return the ticket up to which a ledger's journal was synced when the turn began."""
        return self._tickets[slot.journal_no].synced_number

    # -------------------------------------------------------------- filling it

    def answer(self, inbound: Inbound, answer: Message) -> None:
        """Answer at the end of the turn."""
        self._answers.append(Outbound(inbound, answer))

    def is_synced(self, slot: LedgerSlot) -> bool:
        """Return whether everything that a ledger has in its journal is on stable storage."""
        return slot.ticket <= self._tickets[slot.journal_no].synced_number

    def is_durable(self, slot: LedgerSlot) -> bool:
        """Return whether everything that a ledger has is on stable storage."""
        return self.is_synced(slot) and not (slot.is_log_unsynced or slot.is_adding)

    def answer_when_synced(self, slot: LedgerSlot, inbound: Inbound, answer: Message) -> None:
        """Answer at the end of the turn, or when a ledger's journal is on stable storage.

        LACs leave in the order in which they rose, as their records do.
        """
        if self.is_synced(slot):
            self.answer(inbound, answer)
        else:
            self.ticket(slot).after_sync.append(Outbound(inbound, answer))

    def answer_when_durable(self, slot: LedgerSlot, inbound: Inbound, answer: Message) -> None:
        """Answer at the end of the turn, or when everything of a ledger is on stable storage."""
        if self._waits_for_log(slot):
            self.log_syncs.wait(slot, Outbound(inbound, answer))
        else:
            self.answer_when_synced(slot, inbound, answer)

    def answer_add(
        self,
        slot: LedgerSlot,
        ledger_type: LedgerType,
        outbound: Outbound,
        answers_after: AcknowledgesAfter,
    ) -> None:
        """Answer an add that was stored, now or earlier, as its ledger's type says.

        The answer leaves before that of a fence which follows.
        """
        if answers_after == "write":
            ticket = self.ticket(slot)
            ticket.after_write.append(outbound)
            if ledger_type not in ticket.write_types:
                ticket.write_types += (ledger_type,)
        elif slot.is_log_unsynced:
            self.log_syncs.wait(slot, outbound)
        else:
            ticket = self.ticket(slot)
            ticket.after_sync.append(outbound)
            if ledger_type not in ticket.sync_types:
                ticket.sync_types += (ledger_type,)

    def answer_cursor(self, slot: LedgerSlot, inbound: Inbound) -> None:
        """Answer with the sync cursor when everything of a ledger is on stable storage."""
        if self._waits_for_log(slot):
            self.log_syncs.wait(slot, inbound)
        else:
            ticket = self.ticket(slot)
            slot.ticket = ticket.number
            ticket.syncs.append((inbound, slot))
            if inbound.span is not None:
                ticket.spans.append(inbound.span)

    def note_held(self, slot: LedgerSlot, runs: Iterable[SyncedRun]) -> None:
        """Count entries that were stored before, in the cursor, when they are synced."""
        for run in runs:
            if slot.is_log_unsynced:
                self.log_syncs.note_held(slot, run)
            else:
                self.ticket(slot).stored.append(Stored(slot, run))

    def fetch(self, fetch: Fetch) -> None:
        """Hand a read to the read actor at the end of the turn."""
        self._fetches.append(fetch)

    def refusal(self, inbound: Inbound, error: ZbkError) -> Refused:
        """Return the answer that carries an error.

        Raises:
            StorageFailedError: this error is no answer, and the bookie has to stop.
        """
        self.refusals.count(error)
        if self.audit is not None:
            self.audit.refused(inbound, error)
        return refusal_of(inbound, self.incarnation, answerable(error))

    def refuse(self, inbound: Inbound, error: ZbkError) -> None:
        """Answer with an error, as ``refusal`` makes it."""
        self.answer(inbound, self.refusal(inbound, error))

    def refuse_waits(self, waits: Iterable[Wait], error: ZbkError) -> None:
        """Answer requests that wait for a sync with an error."""
        for wait in waits:
            self.refuse(wait.inbound if isinstance(wait, Outbound) else wait, error)

    def lac_answer(self, inbound: Inbound, lac: int) -> LacAnswer:
        """Return the answer that carries a LAC."""
        request_id = inbound.request.request_id
        return LacAnswer(request_id=request_id, incarnation=self.incarnation, lac=lac)

    def record_lac(self, slot: LedgerSlot, lac: int) -> None:
        """Journal an explicit LAC."""
        self.record(slot, ExplicitLacRecord(slot.ledger_id, lac))
        slot.ledger.lac_recorded(lac, self.ticket(slot).number, self.synced_ticket(slot))
        self._watches.recorded(slot)

    def record(self, slot: LedgerSlot, record: JournalRecord) -> None:
        """Journal a change of a ledger."""
        self.record_key(slot)
        tickets = self._tickets[slot.journal_no]
        tickets.records.append(record)
        slot.ticket = tickets.filled.number

    def record_key(self, slot: LedgerSlot) -> None:
        """Journal the key of a ledger, unless that was done."""
        if slot.key_record is not None:
            key, slot.key_record = slot.key_record, None
            self.record(slot, key)

    @property
    def waiting_size(self) -> int:
        """Bytes of records that are not written yet: handed to journals, or of this turn."""
        admitted_size = sum(one.record_size for one in self._admitted)
        recorded_size = sum(record.size for one in self._tickets for record in one.records)
        handed_size = sum(one.handed_size - one.progress.written_size for one in self._tickets)
        return handed_size + recorded_size + admitted_size

    @property
    def unsynced_size(self) -> int:
        """Bytes of the tickets whose sync is waited for, in all journals."""
        return sum([one.awaited_size - one.progress.synced_size for one in self._tickets])

    def await_syncs(self, *, is_awaited: bool) -> None:
        """Report each sync as ``Synced``, or no longer."""
        for tickets in self._tickets:
            tickets.progress.is_awaited = is_awaited

    def store(self, admitted: Admitted) -> None:
        """Store and journal new entries, and answer then."""
        self._admitted.append(admitted)
        if admitted.is_journaled:
            admitted.slot.ticket = self.ticket(admitted.slot).number
        else:
            admitted.slot.is_adding = True

    def store_batches(self) -> None:
        """Store the adds of this turn so far, or refuse them: the index knows them afterwards.

        Raises:
            StorageFailedError: the written part is unknown; the bookie must stop.
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

    def _waits_for_log(self, slot: LedgerSlot) -> bool:
        """Return whether an entry log has un-synced entries of a ledger, also of this turn."""
        if slot.is_adding:
            self.store_batches()
        return slot.is_log_unsynced

    def _store(self, home: LedgerDirectory, admitted: Sequence[Admitted]) -> None:
        failure = self._add(home, admitted)
        if failure is not None:
            recoveries = [one for one in admitted if one.is_recovery]
            # the reserve has been released: it is for them
            failure = self._add(home, recoveries) if recoveries else failure
            for one in admitted:
                if failure is not None or not one.is_recovery:
                    self._refuse_add(one, failure)

    def _add(self, home: LedgerDirectory, admitted: Sequence[Admitted]) -> NoSpaceError | None:
        """Store adds, all of them or none; return the error if there was no space."""
        try:
            bases = home.add(
                [one.batch for one in admitted],
                [one.slot.stored.index for one in admitted],
                {one.slot.ledger_id for one in admitted if not one.is_journaled},
            )
        except NoSpaceError as error:
            return error
        except CorruptRecordError as error:  # damaged since it was prepared
            raise StorageFailedError(error.where, "add", str(error)) from error
        for one, base in zip(admitted, bases, strict=True):
            self._note_stored(one, base)
        return None

    def _note_stored(self, one: Admitted, base: int) -> None:
        batch, slot = one.batch, one.slot
        self.record_key(slot)
        self.answer_add(slot, one.ledger_type, Outbound(one.inbound, one.answer), one.answers_after)
        counts = self.counts.by_type[one.ledger_type]
        counts.batch_count += 1
        counts.entry_count += batch.count
        counts.size += len(batch.body)
        if not one.is_journaled:
            lac = NO_ENTRY if one.recorded_lac is None else one.recorded_lac
            placed = Placed(split_location(base)[0], len(batch.body), one.runs)
            since_us = self._received_us if self._received_us > 0 else monotonic_us()
            self.log_syncs.stored(slot, placed, lac, since_us)
        else:
            self._journal(one)
        if one.inbound.span is not None:
            one.inbound.span.event("admitted")
            self.ticket(slot).spans.append(one.inbound.span)

    def _journal(self, one: Admitted) -> None:
        slot, tickets = one.slot, self._tickets[one.slot.journal_no]
        ticket = tickets.filled
        tickets.records.append(EntriesRecord(one.batch))
        if one.recorded_lac is not None:
            slot.ledger.lac_recorded(one.recorded_lac, ticket.number, tickets.synced_number)
            self._watches.recorded(slot)
        ticket.stored += [Stored(slot, run) for run in one.runs]

    def _refuse_add(self, one: Admitted, failure: NoSpaceError | None) -> None:
        one.slot.is_adding = False
        with suppress(OutOfDescriptorsError, CorruptRecordError):  # adds that follow are looked up
            one.slot.last_entry_id = one.slot.stored.index.last_entry_id
        is_busy = isinstance(failure, OutOfDescriptorsError)
        self.refuse(one.inbound, failure if failure and is_busy else self._space.refusal())

    # -------------------------------------------------------------- begin and end

    def begin(self, received_us: int = 0, lone_count: int = 1) -> None:
        """Begin a ticket of each journal; ``received_us``: when its requests came, if any did.

        ``lone_count`` as in ``Requests``.
        """
        self._received_us = received_us
        self._lone_count = lone_count
        self._storage.begin_turn()
        for tickets in self._tickets:
            tickets.begin()

    def logs_synced(self, synced: Sequence[UnsyncedEntries]) -> None:
        """Journal that entries are synced in entry logs, and answer who waited when that is.

        A ledger whose header cannot be read now is synced again later, and these are refused.
        """
        for entries in synced:
            slot = entries.slot
            ticket = self.ticket(slot)
            if not self._storage.is_deleted(slot.ledger_id):
                is_lac_news = entries.lac > slot.ledger.recorded_lac
                try:
                    if is_lac_news:  # first: nothing is recorded if it fails
                        slot.stored.index.set_explicit_lac(entries.lac)
                except (OutOfDescriptorsError, CorruptRecordError) as error:
                    self.refuse_waits(self.log_syncs.keep(entries), error)
                    continue
                for run in entries.runs:
                    self.record(
                        slot, SyncedEntriesRecord(slot.ledger_id, run.first, run.last, run.stripe)
                    )
                    ticket.stored.append(Stored(slot, run))
                if is_lac_news:
                    self.record_lac(slot, entries.lac)
            for wait in entries.waits:
                if isinstance(wait, Outbound):
                    ticket.after_sync.append(wait)
                else:
                    ticket.syncs.append((wait, slot))

    def when_synced(self, is_quiet: threading.Event) -> None:
        """Set an event once everything up to now is on stable storage, in all journals."""
        quiescing = Quiescing(is_quiet, len(self._tickets))
        for tickets in self._tickets:
            tickets.filled.quiesced.append(quiescing)

    def end(self) -> None:
        """Store the adds of the turn, and hand its records to the journals, as a ticket of each."""
        self.store_batches()
        self.log_syncs.begin()
        # before the journals: a "no such entry" must not follow the acknowledgement of that entry
        self.send()
        received_us, lone_count = self._received_us, self._lone_count
        groups = [
            (number, one.end(received_us, lone_count)) for number, one in enumerate(self._tickets)
        ]
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
        """Return, in order, a journal's tickets up to this one that mean work here."""
        unsynced = self._tickets[journal_no].unsynced
        synced = []
        while unsynced and unsynced[0].number <= number:
            synced.append(unsynced.popleft())
        return synced

    def send(self) -> None:
        """Send answers and reads that are ready, in lists."""
        if self._fetches:
            fetches, self._fetches = self._fetches, []
            self._reader.tell(fetches)
        if self._answers:
            answers, self._answers = self._answers, []
            self._send(answers)
