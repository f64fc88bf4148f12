"""The storage actor: admits requests, keeps entries and index, answers when the promise is kept.

mailbox     Requests, from the front, which handles small ones itself while the actor is idle;
            Synced, from the journal actors; RunInStorage, from the checkpoint, gc and scrub actors;
            ForgetLedgers, from the gc actor; PollsDue, from the ticker while a client waits for a
            LAC; ResolveAgain, from the read actor; LookedUp, from the lookup actor; Quiesce, when
            the bookie stops
answers     clients, through the front or by way of the journal, when the ledger's type says so
owns        BookieStorage (entry logs, index), LedgerTable (the rules' view of each ledger), the
            LacWatches, and what waits for the metadata store (``new_ledger_gate``)
on failure  the bookie stops

What requests mean stands beside: ``add_requests`` (adds, explicit LACs, syncs), ``read_requests``
(reads, fences, LACs, what is held). Here each message becomes a turn, and each turn a ticket of
each journal that has a part in it (``turn``).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, assert_never

import msgspec
import pykka

from zbk.actors.base import LendingActor, StopBookie
from zbk.actors.messages import ForgetLedgers, RunInStorage, Sink, TickSource
from zbk.actors.serve.add_requests import AddRequests
from zbk.actors.serve.journal import Send, Synced, SyncProgress
from zbk.actors.serve.lac_watches import WATCH_COUNT_MAX, LacWatches
from zbk.actors.serve.ledger_lookups import LookedUp, LookUp
from zbk.actors.serve.ledger_table import LEDGER_COUNT_MAX, LedgerTable
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.actors.serve.read import Fetch, ResolveAgain
from zbk.actors.serve.read_requests import ReadRequests
from zbk.actors.serve.turn import AddCounts, JournalSink, Ticket, Turn
from zbk.actors.space_gate import SpaceGate
from zbk.errors import (
    BusyError,
    MalformedMessageError,
    OutOfDescriptorsError,
    StorageFailedError,
    ZbkError,
)
from zbk.storage.bookie_storage import BookieStorage
from zbk.system.clock import monotonic_ms
from zbk.system.direct_inbox import Door
from zbk.transport.inbound import Inbound
from zbk.wire.messages import (
    Add,
    CollectGarbage,
    GetBookieInfo,
    GetLedgerInfo,
    Hello,
    Message,
    Ping,
    Read,
    ReadLac,
    Scrub,
    Sync,
    SyncAnswer,
    WatchLacs,
    WriteLac,
)

LENT_SIZE_MAX: Final = 64 * 1024
"""Bytes of requests that the front's thread serves in the place of an idle storage actor."""


class Requests(msgspec.Struct, frozen=True):
    """What the front received in one turn."""

    batch: list[Inbound]


class PollsDue(msgspec.Struct, frozen=True):
    """Look whether a client has waited long enough."""


class Quiesce(msgspec.Struct, frozen=True):
    """Call ``done`` when everything received before is on stable storage and answered."""

    done: Callable[[], None]


StorageMessage: TypeAlias = (
    Requests | Synced | Quiesce | RunInStorage | PollsDue | ForgetLedgers | ResolveAgain | LookedUp
)


class StorageDoor(Door):
    """Where the front hands requests to the storage actor, in order."""

    def receive(self, batch: list[Inbound]) -> None:
        """Serve few bytes in the calling thread if the actor is idle; leave the rest for it."""
        requests = Requests(batch)
        is_small = sum([inbound.size for inbound in batch]) <= LENT_SIZE_MAX
        if not (is_small and self.hand(requests)):
            with suppress(pykka.ActorDeadError):  # the bookie stops
                self.tell(requests)


class StorageActor(LendingActor):
    """Admits, stores, answers."""

    def __init__(
        self,
        storage: BookieStorage,
        *,
        journals: Callable[[], Sequence[JournalSink]],
        reader: Sink[list[Fetch]],
        look_up: Callable[[LookUp], None],
        progresses: Sequence[SyncProgress],
        ticker: TickSource,
        send: Send,
        space: SpaceGate,
        about: Callable[[GetBookieInfo | CollectGarbage | Scrub], Message],
        incarnation: int,
        entry_size_max: int,
        read_size_max: int,
        stop_bookie: StopBookie,
        door: Door | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
        ledger_count_max: int = LEDGER_COUNT_MAX,
        watch_count_max: int = WATCH_COUNT_MAX,
    ) -> None:
        super().__init__(stop_bookie, door or Door())
        self._storage = storage
        self._about = about
        self._ledgers = LedgerTable(storage, progresses, ledger_count_max)
        watches = LacWatches(progresses, count_max=watch_count_max)
        self._turn = Turn(
            storage,
            progresses,
            journals=journals,
            reader=reader,
            send=send,
            space=space,
            watches=watches,
            incarnation=incarnation,
        )
        self._gate = NewLedgerGate(self._ledgers, look_up)
        self._adds = AddRequests(
            storage,
            self._ledgers,
            self._turn,
            gate=self._gate,
            space=space,
            entry_size_max=entry_size_max,
        )
        self._reads = ReadRequests(
            storage,
            self._ledgers,
            self._turn,
            progresses,
            gate=self._gate,
            read_size_max=read_size_max,
            ticker=ticker,
            on_tick=self._on_tick,
            now_ms=now_ms,
            watches=watches,
        )

    @property
    def counts(self) -> AddCounts:
        """What was added."""
        return self._turn.counts

    @property
    def ledger_count(self) -> int:
        """How many ledgers are in the table."""
        return len(self._ledgers)

    def handle(self, message: StorageMessage) -> None:  # noqa: C901 - a case for each message
        """Dispatch; then send what is ready, in lists."""
        match message:
            case Requests():
                self._serve(inbound for inbound in message.batch if not self._waits(inbound))
            case LookedUp():
                self._serve(self._gate.released(message.findings))
            case Synced():
                for ticket in self._turn.take_synced(message.journal_no, message.ticket):
                    self._on_synced(ticket)
                self._reads.on_synced(message.journal_no)
            case PollsDue():
                self._reads.on_time()
            case Quiesce():
                self._reads.wake_all()
                self._turn.begin()
                for inbound in self._gate.give_up():
                    self._refuse(inbound, BusyError("the bookie stops"))
                self._turn.when_synced(message.done)
                self._turn.end()
            case RunInStorage():
                self._ledgers.keep_cursors()  # a checkpoint may write them down
                message.step()
            case ForgetLedgers():
                message.done(self._forget(message.ledger_ids))
            case ResolveAgain():
                self._reads.resolve_again(message.fetch)
            case _:
                assert_never(message)
        self._reads.answer_watches()
        self._turn.send()

    def _forget(self, ledger_ids: Sequence[int]) -> bool:
        """Refuse ledgers from now on; false if storage cannot remember more of them."""
        if not self._storage.mark_deleted(ledger_ids):
            return False
        for ledger_id in ledger_ids:
            self._ledgers.forget(ledger_id)
            self._reads.ledger_gone(ledger_id)
        return True

    def _on_tick(self) -> None:
        """Come back for those who wait. The ticker's thread."""
        self.actor_ref.tell(PollsDue())

    # -------------------------------------------------------------- requests

    def _serve(self, inbounds: Iterable[Inbound]) -> None:
        """Do what is asked, in one turn; then ask for the ledgers that are new here."""
        turn = self._turn
        turn.begin()
        for inbound in inbounds:
            try:
                self._on_request(inbound)
            except OutOfDescriptorsError as error:
                turn.answer(inbound, turn.refusal(inbound, error))
            except StorageFailedError:
                raise  # this is no answer: the bookie stops
            except ZbkError as error:
                self._refuse(inbound, error)
        self._reads.answer_watches()  # a LAC must not follow a higher one that a sync now makes
        turn.end()
        self._gate.ask()

    def _waits(self, inbound: Inbound) -> bool:
        """Return whether a request waits behind others of its ledger, or is refused."""
        try:
            return self._gate.holds_back(inbound)
        except BusyError as error:
            self._refuse(inbound, error)
            return True

    def _refuse(self, inbound: Inbound, error: ZbkError) -> None:
        self._turn.answer(inbound, self._turn.refusal(inbound, error))

    def _on_request(self, inbound: Inbound) -> None:
        request = inbound.request
        match request:
            case Add():
                self._adds.add(inbound, request)
            case Read():
                self._reads.read(inbound, request)
            case ReadLac():
                self._reads.read_lac(inbound, request)
            case WatchLacs():
                self._reads.watch_lacs(inbound, request)
            case WriteLac():
                self._adds.write_lac(inbound, request)
            case Sync():
                self._adds.sync(inbound, request)
            case GetLedgerInfo():
                self._reads.ledger_info(inbound, request)
            case GetBookieInfo() | CollectGarbage() | Scrub():
                self._turn.answer(inbound, self._about(request))
            case Hello() | Ping():
                raise MalformedMessageError("the front answers this itself")
            case _:
                assert_never(request)

    # -------------------------------------------------------------- promises

    def _on_synced(self, ticket: Ticket) -> None:
        for slot in ticket.fenced:
            slot.ledger.fence_synced()
        for fetch in ticket.fetches:
            self._turn.fetch(fetch)
        for stored in ticket.stored:
            stored.slot.ledger.synced(stored.first, stored.last)
            self._ledgers.cursor_moved(stored.slot)
        for inbound, slot in ticket.syncs:
            answer = SyncAnswer(
                request_id=inbound.request.request_id,
                incarnation=self._turn.incarnation,
                last_add_synced=slot.ledger.last_add_synced,
            )
            self._turn.answer(inbound, answer)
        for done in ticket.quiesced:
            done()
