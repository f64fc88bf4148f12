"""Requests that ask the storage actor about a ledger: reads, the LAC, ledger info; and the fence.

A *fencing* request puts the fence on before anything else, in the same turn: no add can come
between. From then on every answer to it, entries, a LAC, "no such entry" or an error, waits until
the fence is on stable storage, no matter which request put it on: a recoverer takes each of them as
"this bookie accepts no more adds", and a power loss must not make that untrue. A request with the
wrong key, or for another type of ledger, fences nothing and is refused at once.

"No such entry", or ledger, is only said of what was never lost (``zbk.durability.limbo``).

Readers are told the durable LAC (``BookieLedger``). A recoverer is told the highest LAC known,
because its answer waits for a sync of everything before it.

Owned and run by the storage actor.

Source: "The BookKeeper protocol", section Closing a ledger as a reader; BookKeeper's
``ReadEntryProcessorV3`` (which lets negative answers go before the fence is durable),
``ReadLacProcessorV3``.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.actors.serve.add_requests import stripe_of
from zbk.actors.serve.ledger_table import LedgerSlot, LedgerTable, synced_until
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.actors.serve.read import Fetch
from zbk.actors.serve.turn import Turn
from zbk.actors.serve.watch_requests import WatchRequests
from zbk.errors import EntryUnreadableError, MalformedMessageError, NoSuchEntryError, ZbkError
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import FenceRecord
from zbk.transport.inbound import Inbound
from zbk.wire.codec import decode_ids
from zbk.wire.messages import GetLedgerInfo, LedgerInfo, Read, ReadLac

READ_COUNT_MAX: Final = 65_536
LEDGER_INFO_RANGE_COUNT_MAX: Final = 1_000
LEDGER_INFO_ENTRY_COUNT_MAX: Final = 1_000_000


class ReadRequests:
    """Serves reads and fences."""

    def __init__(
        self,
        storage: BookieStorage,
        ledgers: LedgerTable,
        turn: Turn,
        *,
        gate: NewLedgerGate,
        watches: WatchRequests,
        read_size_max: int,
    ) -> None:
        self._storage = storage
        self._ledgers = ledgers
        self._turn = turn
        self._gate = gate
        self._watches = watches
        self._read_size_max = read_size_max

    # -------------------------------------------------------------- entries

    def read(self, inbound: Inbound, request: Read) -> None:
        """Look up where the entries are, for the read actor; a fencing read fences first."""
        entry_ids = _entry_ids_of(inbound, request)
        if not request.is_fencing:
            known = self._ledgers.known(request)
            self._turn.fetch(self._fetch_of(inbound, request, known, entry_ids))
            return
        slot = self._fence(inbound, request)
        if slot is None:
            return
        try:
            fetch = self._fetch_of(inbound, request, slot, entry_ids)
        except ZbkError as error:
            refused = self._turn.refusal(inbound, error)
            self._turn.answer_when_synced(slot, inbound, refused)
            return
        if slot.ledger.is_fence_durable:
            self._turn.fetch(fetch)
        else:
            self._turn.ticket(slot).fetches.append(fetch)

    def _fetch_of(
        self, inbound: Inbound, request: Read, slot: LedgerSlot, entry_ids: Sequence[int]
    ) -> Fetch:
        size_max = min(request.size_max, self._read_size_max)
        resolved = slot.stored.resolve(entry_ids, size_max, is_checked=request.is_checked)
        if resolved is None:
            self._ledgers.check_miss(request.ledger_id, request.ledger_type)
            raise NoSuchEntryError(request.ledger_id, entry_ids[0])
        return Fetch(inbound, resolved, slot.ledger.durable_lac(self._turn.synced_ticket(slot)))

    def resolve_again(self, fetch: Fetch) -> None:
        """Look up entries again that the read actor has not found where they were."""
        was = fetch.resolved
        try:
            stored = self._storage.homes.ledger(was.ledger_id)
            resolved = stored.resolve(was.entry_ids, was.size_max, is_checked=was.is_checked)
            if resolved is None:  # only a deletion of its ledger takes an entry out of the index
                raise EntryUnreadableError(was.ledger_id, was.entry_ids[0], "its log is gone")
        except ZbkError as error:
            self._turn.refuse(fetch.inbound, error)
        else:
            self._turn.fetch(
                Fetch(fetch.inbound, resolved, fetch.lac, resolve_count=fetch.resolve_count + 1)
            )

    # -------------------------------------------------------------- the LAC

    def read_lac(self, inbound: Inbound, request: ReadLac) -> None:
        """Answer with the LAC: now, or when it rises, or after the fence."""
        if not request.is_fencing:
            self._watches.read_lac(inbound, request)
            return
        slot = self._fence(inbound, request)
        if slot is not None:  # the answer waits for the fence, and for what was before
            answer = self._turn.lac_answer(inbound, slot.ledger.lac)
            self._turn.answer_when_synced(slot, inbound, answer)

    # -------------------------------------------------------------- ledger info

    def ledger_info(self, inbound: Inbound, request: GetLedgerInfo) -> None:
        """Return what is held of a ledger, once all of it is on stable storage.

        Its callers rely on that: a repair drops another replica, a re-check ends a limbo. One that
        only shows the answer has it at once, and the entries stay as durable as they are.
        """
        slot = self._ledgers.find(request.ledger_id)
        answer = LedgerInfo(
            request_id=request.request_id,
            incarnation=self._turn.incarnation,
            is_known=False,
            is_in_limbo=self._storage.limbo.limbo.is_miss_unknown(
                request.ledger_id, None if slot is None else slot.ledger.ledger_type
            ),
        )
        if slot is None:
            self._turn.answer(inbound, answer)
            return
        ranges, next_entry_id = slot.stored.held_ranges(
            request.first_entry_id,
            range_count_max=LEDGER_INFO_RANGE_COUNT_MAX,
            entry_count_max=LEDGER_INFO_ENTRY_COUNT_MAX,
        )
        answer = msgspec.structs.replace(
            answer,
            is_known=True,
            is_fenced=slot.ledger.is_fenced,
            lac=slot.ledger.recorded_lac,
            last_entry_id=slot.last_entry_id,
            last_add_synced=self._synced_until(slot, stripe_of(request)),
            ranges=ranges,
            next_entry_id=next_entry_id,
            own_log=slot.stored.home.logs.own_log_of(request.ledger_id),
        )
        if request.is_at_once:
            self._turn.answer(inbound, answer)
        else:
            self._turn.answer_when_durable(slot, inbound, answer)

    def _synced_until(self, slot: LedgerSlot, stripe: Stripe | None) -> int:
        if stripe is None or not slot.ledger.has_cursor:
            return slot.ledger.last_add_synced
        is_durable = self._turn.is_durable(slot)
        count = LEDGER_INFO_ENTRY_COUNT_MAX
        return synced_until(slot, stripe, is_durable=is_durable, narrow_count=count)

    # -------------------------------------------------------------- the fence

    def _fence(self, inbound: Inbound, request: Read | ReadLac) -> LedgerSlot | None:
        """Fence a ledger, held or not. The caller answers when the fence is on stable storage.

        ``None``: the request waits, since the ledger is new here.

        Raises:
            NoSuchLedgerError, MetadataUnavailableError, BusyError: it is not held, and is refused:
                nothing is fenced.
            UnauthorizedError, UnsupportedLedgerError: key or type are others: nothing is fenced.
            CorruptRecordError: its index is damaged: nothing is fenced.
        """
        # adds that came before the fence in this turn are stored, and are answered before it
        self._turn.store_batches()
        slot = self._gate.slot(inbound, request)
        if slot is None:
            return None
        try:
            # a damaged header is met here, not between putting the fence on and recording it
            slot.stored.home.cache.info(request.ledger_id)
            is_key_new, is_fence_new = slot.ledger.fence(request.ledger_key, request.ledger_type)
            if is_key_new:
                self._ledgers.store_key(slot)
                self._turn.record_key(slot)
        except ZbkError:
            self._ledgers.drop_if_new(slot)
            raise
        if is_fence_new:
            slot.stored.index.set_fenced()
            self._turn.record(slot, FenceRecord(request.ledger_id))
            self._turn.ticket(slot).fenced.append(slot)
            self._watches.rise(slot)
            if self._turn.audit is not None:
                self._turn.audit.done("fence", inbound, request.ledger_id)
        return slot


def _entry_ids_of(inbound: Inbound, request: Read) -> Sequence[int]:
    if request.is_striped:
        if len(inbound.frames) != 1:
            raise MalformedMessageError("a striped read has one frame of entry ids")
        return decode_ids(inbound.frames[0], READ_COUNT_MAX)
    if request.last_entry_id < request.first_entry_id:
        raise MalformedMessageError("a read ends before it begins")
    stop = min(request.last_entry_id + 1, request.first_entry_id + READ_COUNT_MAX)
    return range(request.first_entry_id, stop)
