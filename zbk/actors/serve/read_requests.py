"""What asks the storage actor about a ledger: reads, the LAC, what is held; and the fence.

A *fencing* request puts the fence on before anything else is looked at, in the same turn: no add
slips in between. From then on every answer to it, entries, a LAC, "no such entry", an error, waits
until the fence is on stable storage, whoever put it on: a recoverer counts each of them as "this
bookie takes no more adds", and a power loss must not make that untrue. With the wrong key, or of
another type, a request fences nothing and is refused at once.

"No such entry", or ledger, is said only of what was never lost (``zbk.durability.limbo``).

What readers are told as the LAC is the durable one (``BookieLedger``); a recoverer is told the
highest one known, as its answer waits for a sync of all that was before it.

Owned and run by the storage actor.

Source: "The BookKeeper protocol", section Closing a ledger as a reader; BookKeeper's
``ReadEntryProcessorV3`` (which lets negative answers go before the fence is durable),
``ReadLacProcessorV3``, ``LongPollReadEntryProcessorV3``.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from zbk.actors.messages import TickSource
from zbk.actors.serve.journal import SyncProgress
from zbk.actors.serve.lac_watches import LacWatches, Risen, SessionAnswered, Watch
from zbk.actors.serve.ledger_table import LedgerSlot, LedgerTable
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.actors.serve.read import Fetch
from zbk.actors.serve.turn import Turn
from zbk.errors import (
    EntryUnreadableError,
    MalformedMessageError,
    NoSuchEntryError,
    NoSuchLedgerError,
    OutOfDescriptorsError,
    StorageFailedError,
    ZbkError,
)
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import FenceRecord
from zbk.transport.inbound import Inbound
from zbk.wire.codec import decode_ids
from zbk.wire.messages import (
    GetLedgerInfo,
    LacAnswer,
    LacsRisen,
    LedgerInfo,
    Read,
    ReadLac,
    WatchLacs,
    WatchRefusal,
)

READ_COUNT_MAX: Final = 65_536
LEDGER_INFO_RANGE_COUNT_MAX: Final = 1_000
LEDGER_INFO_ENTRY_COUNT_MAX: Final = 1_000_000
WATCH_TICK_MS: Final = 100
"""How often deadlines of long polls and of their sessions are looked at, while there are any."""


ResultT = TypeVar("ResultT")


class ReadRequests:
    """Serves what asks."""

    def __init__(
        self,
        storage: BookieStorage,
        ledgers: LedgerTable,
        turn: Turn,
        progresses: Sequence[SyncProgress],
        *,
        gate: NewLedgerGate,
        read_size_max: int,
        ticker: TickSource,
        on_tick: Callable[[], None],
        now_ms: Callable[[], int],
        watches: LacWatches,
    ) -> None:
        self._gate = gate
        self._storage = storage
        self._ledgers = ledgers
        self._turn = turn
        self._progresses = progresses
        self._is_ticking = False
        self._read_size_max = read_size_max
        self._ticker = ticker
        self._on_tick = on_tick
        self._now_ms = now_ms
        self._watches = watches

    # -------------------------------------------------------------- entries

    def read(self, inbound: Inbound, request: Read) -> None:
        """Look up where the entries are, for the read actor; fence first if that is asked."""
        entry_ids = _entry_ids_of(inbound, request)
        if not request.is_fencing:
            known = self._known(request)
            self._turn.fetch(self._fetch_of(inbound, request, known, entry_ids))
            return
        slot = self._fence(inbound, request)
        if slot is None:
            return
        try:
            fetch = self._fetch_of(inbound, request, slot, entry_ids)
        except OutOfDescriptorsError as error:
            refused = self._turn.refusal(inbound, error)
            self._turn.answer_when_synced(slot, inbound, refused)
            return
        except StorageFailedError:
            raise  # this is no answer: the bookie stops
        except ZbkError as error:
            refused = self._turn.refusal(inbound, error)
            self._turn.answer_when_synced(slot, inbound, refused)
            return
        if slot.ledger.is_fence_durable:
            self._turn.fetch(fetch)
        else:
            self._turn.lane(slot).ticket.fetches.append(fetch)

    def _fetch_of(
        self, inbound: Inbound, request: Read, slot: LedgerSlot, entry_ids: Sequence[int]
    ) -> Fetch:
        size_max = min(request.size_max, self._read_size_max)
        resolved = slot.stored.resolve(entry_ids, size_max, is_checked=request.is_checked)
        if resolved is None:
            self._check_miss(request)
            raise NoSuchEntryError(request.ledger_id, entry_ids[0])
        return Fetch(
            inbound, resolved, slot.ledger.durable_lac(self._turn.lane(slot).synced_ticket)
        )

    def resolve_again(self, fetch: Fetch) -> None:
        """Look up where entries are that the read actor has not found where they were."""
        was = fetch.resolved
        try:
            stored = self._storage.homes.ledger(was.ledger_id)
            resolved = stored.resolve(was.entry_ids, was.size_max, is_checked=was.is_checked)
            if resolved is None:  # an entry may move, and its ledger be deleted, but no more
                raise EntryUnreadableError(was.ledger_id, was.entry_ids[0], "its log is gone")
        except OutOfDescriptorsError as error:
            self._turn.answer(fetch.inbound, self._turn.refusal(fetch.inbound, error))
        except StorageFailedError:
            raise  # this is no answer: the bookie stops
        except ZbkError as error:
            self._turn.answer(fetch.inbound, self._turn.refusal(fetch.inbound, error))
        else:
            self._turn.fetch(
                Fetch(fetch.inbound, resolved, fetch.lac, resolve_count=fetch.resolve_count + 1)
            )

    # -------------------------------------------------------------- the LAC

    def read_lac(self, inbound: Inbound, request: ReadLac) -> None:
        """Answer with the LAC: now, or once it rises, or after the fence."""
        if request.is_fencing:
            slot = self._fence(inbound, request)
            if slot is None:
                return
            answer = self._lac_answer(inbound, slot.ledger.lac)
            self._turn.answer_when_synced(slot, inbound, answer)  # the fence, and what was before
            return
        slot = self._known(request)
        self._check_lac_is_known(slot)
        lac = self._durable_lac(slot)
        has_news = lac > request.known_lac or slot.ledger.is_fenced
        if has_news or not request.wait_ms or self._watches.is_full:
            self._turn.answer(inbound, self._lac_answer(inbound, lac))
            return
        self._watches.add_poll(inbound, request, self._now_ms())
        self._tick()
        self._await_sync(slot)

    def watch_lacs(self, inbound: Inbound, request: WatchLacs) -> None:
        """Go on with a connection's session, and add what it wants to watch."""
        session = self._watches.resume(inbound, request, self._now_ms())
        for asked in request.begun if session is not None else ():
            assert session is not None, "it was looked at first"
            watch = self._watches.add(session, asked)
            if watch is not None:
                self._begin(watch)
        self._tick()

    def _begin(self, watch: Watch) -> None:
        """End a watch at once that has nothing to wait for."""
        slot = _attempt(lambda: self._watched(watch))
        if isinstance(slot, ZbkError):
            self._watches.end(watch, slot)
        elif slot is not None:  # else its first entry may come
            self._await_sync(slot)

    def _watched(self, watch: Watch) -> LedgerSlot | None:
        """Return the ledger of a watch; ``None``: it is not here yet.

        Raises:
            ZbkError: this watch may not hear of it.
        """
        slot = self._ledgers.find(watch.ledger_id)
        if slot is None:
            self._ledgers.check_not_deleted(watch.ledger_id)
            self._check_miss(watch)
        else:
            slot.ledger.check(watch.ledger_key, watch.ledger_type)
            self._check_lac_is_known(slot)
        return slot

    def _check_lac_is_known(self, slot: LedgerSlot) -> None:
        """Accept a ledger of which readers were told no higher LAC than is here.

        Raises:
            UnknownLedgerStateError: they may have been.
        """
        limbo = self._storage.limbo
        if limbo.limbo.may_lack_fence(slot.ledger_id):
            raise limbo.unknown(slot.ledger_id)

    def _await_sync(self, slot: LedgerSlot) -> None:
        """End the watches of a ledger that its LAC is news for, and come back after a sync."""
        if slot.ticket > self._progresses[slot.journal_no].synced_ticket:
            self._watches.await_sync(slot)
        self._rise(slot)  # after that: a sync that ended before it was watched is not announced

    def on_synced(self, journal_no: int) -> None:
        """End the watches of ledgers whose LAC has become durable."""
        for slot in self._watches.take_unsynced(journal_no):
            if slot.ledger_id in self._watches.ledgers:
                self._await_sync(slot)

    def on_time(self) -> None:
        """Answer the clients that have waited as long as they wished."""
        for watch in self._watches.take_overdue(self._now_ms()):
            self._end_poll(watch)
        self._tick()

    def ledger_gone(self, ledger_id: int) -> None:
        """End the watches of a ledger that was deleted."""
        for watch in [*self._watches.ledgers.get(ledger_id, ())]:
            self._watches.end(watch, NoSuchLedgerError(ledger_id))

    def wake_all(self) -> None:
        """Answer all clients that wait."""
        for watch in self._watches.take_all_polls():
            self._end_poll(watch)

    def answer_watches(self) -> None:
        """Answer what has come of watches in this turn."""
        if not self._watches.has_answers:
            return
        for one in self._watches.take_answers(self._now_ms()):
            inbound = one.inbound
            if isinstance(one, SessionAnswered):
                self._turn.answer(inbound, self._session_answer(one))
            elif isinstance(one.outcome, ZbkError):
                self._turn.answer(inbound, self._turn.refusal(inbound, one.outcome))
            else:
                self._turn.answer(inbound, self._lac_answer(inbound, one.outcome))

    def _end_poll(self, watch: Watch) -> None:
        slot = _attempt(lambda: self._ledgers.find(watch.ledger_id))
        if slot is None:  # it was forgotten meanwhile
            slot = NoSuchLedgerError(watch.ledger_id)
        outcome = slot if isinstance(slot, ZbkError) else self._durable_lac(slot)
        self._watches.end(watch, outcome)

    def _rise(self, slot: LedgerSlot) -> None:
        """End the watches for which the LAC of a ledger is news, or all if it is fenced."""
        lac, is_fenced = self._durable_lac(slot), slot.ledger.is_fenced
        for watch in [*self._watches.ledgers.get(slot.ledger_id, ())]:
            if not (is_fenced or lac > watch.known_lac):
                continue
            try:  # the ledger may have come after the watch
                slot.ledger.check(watch.ledger_key, watch.ledger_type)
            except ZbkError as error:
                self._watches.end(watch, error)
            else:
                self._watches.end(watch, lac)

    def _durable_lac(self, slot: LedgerSlot) -> int:
        return slot.ledger.durable_lac(self._progresses[slot.journal_no].synced_ticket)

    def _lac_now(self, risen: Risen) -> int:
        """Return the LAC as it is when it is told: others may have been told a higher one."""
        slot = _attempt(lambda: self._ledgers.find(risen.ledger_id))
        if slot is None or isinstance(slot, ZbkError):
            return risen.lac
        return max(risen.lac, self._durable_lac(slot))

    def _tick(self) -> None:
        """Look at the clock as long as there are watches, or sessions."""
        is_ticking = not self._watches.is_idle
        if is_ticking is not self._is_ticking:
            self._is_ticking = is_ticking
            if is_ticking:
                self._ticker.every(WATCH_TICK_MS, self._on_tick)
            else:
                self._ticker.cancel(self._on_tick)

    def _session_answer(self, one: SessionAnswered) -> LacsRisen:
        incarnation = self._turn.incarnation
        refused = [
            (number, self._turn.refusal(one.inbound, error)) for number, error in one.refused
        ]
        return LacsRisen(
            request_id=one.inbound.request.request_id,
            incarnation=incarnation,
            is_lost=one.is_lost,
            risen=[(risen.number, self._lac_now(risen)) for risen in one.risen],
            refused=[WatchRefusal(number, told.code, told.fields) for number, told in refused],
        )

    def _lac_answer(self, inbound: Inbound, lac: int) -> LacAnswer:
        request_id = inbound.request.request_id
        return LacAnswer(request_id=request_id, incarnation=self._turn.incarnation, lac=lac)

    # -------------------------------------------------------------- what is held

    def ledger_info(self, inbound: Inbound, request: GetLedgerInfo) -> None:
        """Return what is held of a ledger, once all of it is on stable storage.

        Whoever asks counts on it: a repair drops another replica, a re-check ends a limbo.
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
            last_add_synced=slot.ledger.last_add_synced,
            ranges=ranges,
            next_entry_id=next_entry_id,
        )
        self._turn.answer_when_synced(slot, inbound, answer)

    # -------------------------------------------------------------- private

    def _known(self, request: Read | ReadLac) -> LedgerSlot:
        """Return a ledger that this bookie has, after a look at key and type.

        Raises:
            NoSuchLedgerError: it has none of it, and never had.
            UnknownLedgerStateError: it has none of it, any more.
            UnauthorizedError, UnsupportedLedgerError: key or type are others.
        """
        slot = self._ledgers.find(request.ledger_id)
        if slot is None:
            self._check_miss(request)
            raise NoSuchLedgerError(request.ledger_id)
        slot.ledger.check(request.ledger_key, request.ledger_type)
        return slot

    def _check_miss(self, request: Read | ReadLac | Watch) -> None:
        """Allow "no" only for a ledger of which nothing was lost.

        Raises:
            UnknownLedgerStateError: something may have been; neither yes nor no.
        """
        limbo = self._storage.limbo
        if limbo.limbo.is_miss_unknown(request.ledger_id, request.ledger_type) and (
            not self._storage.is_deleted(request.ledger_id)
        ):
            raise limbo.unknown(request.ledger_id)

    def _fence(self, inbound: Inbound, request: Read | ReadLac) -> LedgerSlot | None:
        """Fence a ledger, held or not; it is answered when that is on stable storage.

        ``None``: the request waits, since the ledger is new here.

        Raises:
            NoSuchLedgerError, MetadataUnavailableError, BusyError: it is not held, and is not taken
                in: nothing is fenced.
            UnauthorizedError, UnsupportedLedgerError: key or type are others: nothing is fenced.
            CorruptRecordError: its index is damaged: nothing is fenced.
        """
        # adds that came before the fence in this turn are in, and are answered before it
        self._turn.store_batches()
        slot = self._gate.slot(inbound, request)
        if slot is None:
            return None
        try:
            # damage of its header is met here, and not between putting the fence on and noting it
            slot.stored.home.cache.info(request.ledger_id)
            is_key_new, is_fence_new = slot.ledger.fence(request.ledger_key, request.ledger_type)
            if is_key_new:
                self._turn.record(slot, self._ledgers.store_key(slot))
        except ZbkError:
            self._ledgers.drop_if_new(slot)
            raise
        if is_fence_new:
            slot.stored.index.set_fenced()
            self._turn.record(slot, FenceRecord(request.ledger_id))
            self._turn.lane(slot).ticket.fenced.append(slot)
            self._rise(slot)
        return slot


def _attempt(find: Callable[[], ResultT]) -> ResultT | ZbkError:
    """Return what is found, or the error that is the answer.

    Raises:
        StorageFailedError: this is no answer: the bookie stops.
    """
    try:
        return find()
    except OutOfDescriptorsError as error:
        return error
    except StorageFailedError:
        raise
    except ZbkError as error:
        return error


def _entry_ids_of(inbound: Inbound, request: Read) -> Sequence[int]:
    if request.is_striped:
        if len(inbound.frames) != 1:
            raise MalformedMessageError("a striped read has one frame of entry ids")
        return decode_ids(inbound.frames[0], READ_COUNT_MAX)
    if request.last_entry_id < request.first_entry_id:
        raise MalformedMessageError("a read ends before it begins")
    stop = min(request.last_entry_id + 1, request.first_entry_id + READ_COUNT_MAX)
    return range(request.first_entry_id, stop)
