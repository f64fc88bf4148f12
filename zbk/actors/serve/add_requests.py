"""What changes a ledger at the storage actor: adds, explicit LACs, and the sync of a VD ledger.

Order of an add, as in the seed: entry log, index, journal, answer. All adds that arrived together
are one gathered write to the entry log and one ticket of the journal (of each, if there are more).

A repeated add is answered once its entries are durable, whatever the ledger's type. Other bytes
under the same id are refused, also from a recovery, whose copies are the same bytes. Where the copy
here is damaged, the copy of a recovery is stored, and the index points at it.

A bookie without space refuses ordinary adds. Recovery adds and explicit LACs continue as long as
the journal keeps room for fences. An add to a fenced ledger is answered with the fence.

After a loss that may include fences, ordinary adds to earlier ledgers are refused for ever
(``zbk.durability.limbo``): their writers choose another bookie.

A ledger that is new here waits for the metadata store (``new_ledger_gate``).

Owned and run by the storage actor.

Source: the seed, section Adding entries; BookKeeper's ``BookieImpl.addEntryInternal``.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.actors.serve.admitted import Admitted
from zbk.actors.serve.ledger_table import LedgerSlot, LedgerTable, look_count
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.actors.serve.turn import Turn
from zbk.actors.space_gate import SpaceGate
from zbk.durability.level import level_of
from zbk.durability.synced_run import SyncedRun, runs_of
from zbk.errors import (
    EntryTooLargeError,
    MalformedMessageError,
    NoSuchLedgerError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.entry import entry_overhead_size, stored_lac
from zbk.protocol.entry.entry_batch import COUNT_MAX, EntryBatch, sizes_from_wire
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.disk_space import leaves_room_for_fences
from zbk.storage.index.due_entries import due_until
from zbk.storage.journal.record import EntriesRecord
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.codec import decode_ids
from zbk.wire.messages import Add, AddAnswer, GetLedgerInfo, Request, Sync, WriteLac

CURSOR_LOOK_COUNT_MAX: Final = 1_000_000
"""Ids that one add or sync looks at for the cursor of another stripe."""


class AddRequests:
    """Admits and stores."""

    def __init__(
        self,
        storage: BookieStorage,
        ledgers: LedgerTable,
        turn: Turn,
        *,
        gate: NewLedgerGate,
        space: SpaceGate,
        entry_size_max: int,
    ) -> None:
        self._gate = gate
        self._storage = storage
        self._ledgers = ledgers
        self._turn = turn
        self._space = space
        self._entry_size_max = entry_size_max

    def add(self, inbound: Inbound, request: Add) -> None:
        """Store the new entries of a batch; answer as the ledger's type promises."""
        whole = _batch_of(request, inbound.frames, self._entry_size_max)
        if self._storage.limbo.limbo.losses and not request.is_recovery:
            self._check_limbo(request)
        if self._space.is_switched_off and not request.is_recovery:
            raise self._space.refusal()
        if self._space.is_readonly:
            self._check_space(request, EntriesRecord(whole).size)
        slot = self._gate.slot(inbound, request)
        if slot is None:
            return
        self._admit(inbound, slot, request)
        stripe = stripe_of(request)
        self._follow(slot, stripe)
        slot.stored.index.prepare(whole.entry_ids, is_admission=True)
        is_new = whole.first_entry_id > slot.last_entry_id
        batch = whole if is_new else self._part_to_store(slot, whole, request)
        ledger, turn = slot.ledger, self._turn
        ledger.added(request.lac)
        answer = AddAnswer(
            request_id=request.request_id,
            incarnation=turn.incarnation,
            # it may be more when the answer leaves
            last_add_synced=ledger.last_add_synced_of(stripe),
        )
        answers_after = ledger.acknowledges_after(is_recovery=request.is_recovery)
        has_cursor = level_of(request.ledger_type).has_sync_cursor
        if batch is None:  # sent again
            if has_cursor:  # which may have begun anew since they were stored
                turn.note_held(slot, runs_of(whole, stripe))
            turn.answer_add(slot, request.ledger_type, Outbound(inbound, answer), answers_after)
            return
        recorded_lac = None
        if batch.last_entry_id > slot.last_entry_id:
            slot.last_entry_id = batch.last_entry_id
            recorded_lac = _recorded_lac(batch, request.lac)
        # the rest of it is here
        counted = whole if ledger.is_rest_covered(is_recovery=request.is_recovery) else batch
        admitted = Admitted(
            inbound=inbound,
            slot=slot,
            ledger_type=request.ledger_type,
            batch=batch,
            runs=[*runs_of(counted, stripe)] if has_cursor else (),
            answer=answer,
            answers_after=answers_after,
            recorded_lac=recorded_lac,
            is_recovery=request.is_recovery,
            is_journaled=ledger.is_journaled(is_recovery=request.is_recovery),
        )
        turn.store(admitted)

    def write_lac(self, inbound: Inbound, request: WriteLac) -> None:
        """Keep an explicit LAC, also of a ledger that is new here: its writer may be idle."""
        if self._space.is_readonly and not self._has_room(0):
            raise self._space.refusal()
        slot = self._gate.slot(inbound, request)
        if slot is None:
            return
        self._admit(inbound, slot, request)
        self._record_lac(slot, request.lac)
        answer = self._turn.lac_answer(inbound, slot.ledger.recorded_lac)
        self._turn.answer_when_synced(slot, inbound, answer)  # at once if the LAC is synced already

    def sync(self, inbound: Inbound, request: Sync) -> None:
        """Answer with the sync cursor, once all that was before is on stable storage.

        Raises:
            LedgerFencedError: it is being recovered, or was.
            NoSuchLedgerError: this bookie has nothing of it.
            UnknownLedgerStateError: it may have had, or may have been fenced here.
            UnauthorizedError: the key is another one.
        """
        slot = self._ledgers.find(request.ledger_id)
        limbo = self._storage.limbo
        if slot is None:
            if limbo.limbo.is_miss_unknown(request.ledger_id, None):
                raise limbo.unknown(request.ledger_id)
            raise NoSuchLedgerError(request.ledger_id)
        slot.ledger.admit_sync(request.ledger_key)
        self._ledgers.check_fence_known(request.ledger_id)
        self._record_lac(slot, request.lac)
        self._follow(slot, stripe_of(request))
        if inbound.span is not None:
            inbound.span.event("admitted")
        self._turn.answer_cursor(slot, inbound)

    # -------------------------------------------------------------- private

    def _follow(self, slot: LedgerSlot, stripe: Stripe | None) -> None:
        """Begin a cursor for a stripe, unless there is none, or the ledger has that one.

        If all of the ledger is on stable storage, the cursor begins with what is here. A request
        looks at ``CURSOR_LOOK_COUNT_MAX`` ids; the next ones go on.
        """
        ledger = slot.ledger
        if stripe is None or not ledger.has_cursor:
            return
        is_new = ledger.stripe != stripe
        if not (is_new or slot.is_look_cut):
            return
        from_id = until = ledger.last_add_synced_of(stripe)
        is_cut = not is_new
        if self._turn.is_durable(slot):
            end_id = from_id + look_count(stripe, CURSOR_LOOK_COUNT_MAX)
            until = due_until(slot.stored.index, stripe, from_id, end_id)
            is_cut = stripe.reach(until) >= end_id and slot.last_entry_id > end_id
        slot.is_look_cut = is_cut
        if is_new:
            ledger.follow(stripe, until)
        elif until > from_id:
            ledger.synced(SyncedRun(from_id + 1, until, stripe))

    def _check_limbo(self, request: Add) -> None:
        """Refuse an add to a ledger that may have been fenced here.

        Raises:
            UnknownLedgerStateError: the fence may have been lost.
            LedgerFencedError, UnauthorizedError, UnsupportedLedgerError: no bookie would take it.
        """
        try:
            self._ledgers.check_fence_known(request.ledger_id)
        except UnknownLedgerStateError:
            self._check_known_fence(request)
            raise

    def _check_space(self, request: Add, record_size: int) -> None:
        """Admit an add though the bookie has no space for all of them.

        Raises:
            BookieReadOnlyError: it is no recovery's, or the reserve is used up.
            LedgerFencedError, UnauthorizedError, UnsupportedLedgerError: it would be refused
                anyway, and no other bookie would take it.
        """
        if request.is_recovery and self._has_room(record_size):
            return
        self._check_known_fence(request)
        raise self._space.refusal()

    def _check_known_fence(self, request: Add) -> None:
        """Refuse, with the better reason, an add that is to be refused in any case.

        Raises:
            LedgerFencedError, UnauthorizedError, UnsupportedLedgerError: no bookie would take it.
        """
        slot = self._ledgers.find(request.ledger_id)
        if slot is not None:
            slot.ledger.check(request.ledger_key, request.ledger_type)
            slot.ledger.check_fence(is_recovery=request.is_recovery)

    def _has_room(self, record_size: int) -> bool:
        if not self._storage.has_index_room:
            return False
        if self._storage.has_reserve:
            return True
        left_size = self._storage.journals.room_size - self._turn.waiting_size
        return leaves_room_for_fences(left_size, record_size)

    def _admit(self, inbound: Inbound, slot: LedgerSlot, request: Add | WriteLac) -> None:
        """Admit a change of a ledger. A new ledger is known from now on."""
        ledger, key, kind = slot.ledger, request.ledger_key, request.ledger_type
        try:
            if isinstance(request, Add):
                is_key_new = ledger.admit_add(key, kind, is_recovery=request.is_recovery)
                if request.is_recovery:
                    self._note_recovery(inbound, slot)
            else:
                is_key_new = ledger.admit_lac(key, kind)
            if is_key_new:
                self._ledgers.store_key(slot)
                if level_of(kind).is_journaled:  # else a start takes it for the proof of an entry
                    self._turn.record_key(slot)
                if self._turn.audit is not None:
                    self._turn.audit.done("create", inbound, slot.ledger_id)
        except ZbkError:
            self._ledgers.drop_if_new(slot)
            raise

    def _note_recovery(self, inbound: Inbound, slot: LedgerSlot) -> None:
        """Record the first add of a recovery in the audit log."""
        if self._turn.audit is not None and not slot.is_recovered:
            slot.is_recovered = True
            self._turn.audit.done("recovery", inbound, slot.ledger_id)

    def _record_lac(self, slot: LedgerSlot, lac: int) -> None:
        """Put a LAC on stable storage with this turn's ticket, if it is news."""
        if lac > slot.ledger.recorded_lac:
            slot.stored.index.set_explicit_lac(lac)
            self._turn.record_lac(slot, lac)

    def _part_to_store(
        self, slot: LedgerSlot, batch: EntryBatch, request: Add
    ) -> EntryBatch | None:
        """Return the part of the batch to store; ``None`` if the same bytes are stored already.

        Raises:
            DuplicateEntryError: an id is stored with other bytes.
            EntryUnreadableError: the copy here cannot be read; a recovery's is stored anew.
        """
        self._turn.store_batches()  # the index must know the earlier adds of this turn
        if request.is_recovery:
            return slot.stored.part_to_mend(batch)
        return slot.stored.part_to_store(batch)


def stripe_of(request: Request) -> Stripe | None:
    """Return the stripe that a request names, if it names one."""
    if isinstance(request, Add | Sync | GetLedgerInfo) and request.stripe is not msgspec.UNSET:
        return request.stripe
    return None


def _recorded_lac(batch: EntryBatch, lac: int) -> int:
    """Return the LAC in the header of the last entry: a start would find it.

    The header was not verified, only the batch's checksum: the LAC of the request bounds it.
    """
    # if both are equal, the object that the ledger keeps as well: it saves memory
    return min(lac, stored_lac(batch.body, len(batch.body) - batch.sizes[-1]))


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
    stripe = stripe_of(request)
    # after that: it makes a list of the ids, which are as many as the header says, and as high
    if stripe is not None and not stripe.is_run(entry_ids):
        raise MalformedMessageError("an add without all that is due from its first to its last id")
    batch.verify()
    if batch.size > entry_size_max:  # seldom: only then it is worth to look at each
        overhead_size = entry_overhead_size(batch.body)
        if max(sizes) > entry_size_max + overhead_size:
            raise EntryTooLargeError(max(sizes) - overhead_size, entry_size_max)
    return batch
