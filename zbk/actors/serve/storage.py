"""The storage actor: admits requests, keeps entries and index, answers when the promise is kept.

mailbox     Requests, from the front, which handles small ones itself while the actor is idle;
            RequestsWait, when others wait in the ``FairQueue`` of the door;
            Synced, from the journal actors; AskStorage, from the checkpoint, gc and scrub actors;
            EndCheckpoint, from the checkpoint actor; ForgetLedgers, from the gc actor;
            WatchesDue, from the ticker while a client waits for a LAC; ResolveAgain, from the read
            actor; LookedUp, from the lookup actor; LogsSynced, from the log sync actor; changes of
            rights (``access_gate``), from the metadata store; Quiesce, when the bookie stops
answers     clients, through the front, or through the journal if the ledger's type says so
owns        BookieStorage (entry logs, index), LedgerTable (the rules' view of each ledger), the
            LacWatches, and the requests that wait for the metadata store (``new_ledger_gate``)
on failure  the bookie stops

A *turn* is the handling of one message. The request classes fill it: ``add_requests`` (adds,
explicit LACs, syncs), ``read_requests`` (reads, fences, LACs, ledger info), ``watch_requests``
(clients that wait for a LAC). Each turn becomes one ticket of each journal that has a part in it
(``turn``).
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.actors.base import LendingActor, StopBookie
from zbk.actors.messages import (
    Answered,
    AskStorage,
    EndCheckpoint,
    ForgetLedgers,
    reply,
)
from zbk.actors.serve.access_gate import (
    AccessGate,
    AccessMessage,
    GrantsChanged,
    SetKeys,
    SetNamespaces,
)
from zbk.actors.serve.add_counts import AddCounts
from zbk.actors.serve.add_requests import AddRequests, stripe_of
from zbk.actors.serve.lac_watches import LacWatches
from zbk.actors.serve.ledger_lookups import LookedUp
from zbk.actors.serve.ledger_table import LedgerTable
from zbk.actors.serve.log_syncs import LogsSynced
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.actors.serve.parts import ServeLimits, ServeParts
from zbk.actors.serve.read import ResolveAgain
from zbk.actors.serve.read_requests import ReadRequests
from zbk.actors.serve.storage_door import Quiesce, Requests, RequestsWait, StorageDoor
from zbk.actors.serve.sync_queue import Synced
from zbk.actors.serve.tickets import Ticket
from zbk.actors.serve.turn import Turn
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger
from zbk.actors.serve.watch_requests import WatchRequests
from zbk.errors import (
    BusyError,
    MalformedMessageError,
    ZbkError,
)
from zbk.metrics.buckets import Buckets, merged
from zbk.metrics.refusals import Refusals
from zbk.storage.bookie_storage import BookieStorage
from zbk.system.clock import monotonic_us
from zbk.transport.inbound import Inbound
from zbk.wire.messages import (
    Add,
    CollectGarbage,
    GetBookieInfo,
    GetLedgerInfo,
    Hello,
    Ping,
    Read,
    ReadLac,
    Scrub,
    Sync,
    SyncAnswer,
    WatchLacs,
    WriteLac,
)

THROTTLE_TICK_MS: Final = 20
"""Time between two looks at the queue while clients are over their rates."""


class WatchesDue(msgspec.Struct, frozen=True):
    """Check whether a client has waited long enough for a LAC."""


StorageMessage: TypeAlias = (
    Requests
    | RequestsWait
    | Synced
    | Quiesce
    | AskStorage
    | EndCheckpoint
    | WatchesDue
    | ForgetLedgers
    | ResolveAgain
    | LookedUp
    | AccessMessage
    | LogsSynced
)


class StorageActor(LendingActor):
    """Admits, stores, answers."""

    def __init__(
        self,
        storage: BookieStorage,
        parts: ServeParts,
        limits: ServeLimits,
        *,
        incarnation: int,
        stop_bookie: StopBookie,
        door: StorageDoor | None = None,
    ) -> None:
        door = door or StorageDoor()
        super().__init__(stop_bookie, door)
        self._waiting = door.queue
        self._is_holding = False  # requests in the queue wait for a sync
        self._is_throttling = False  # others wait until their clients are below their rates
        self._lent_count = 0  # of messages that the front has served at once
        self._ticker = parts.ticker
        self._storage = storage
        self._status = parts.status
        watches = LacWatches(parts.progresses, count_max=limits.watch_count_max)
        self._ledgers = LedgerTable(storage, parts.progresses, limits.ledger_count_max)
        self._turn = Turn(storage, parts, watches, incarnation)
        self._gate = NewLedgerGate(self._ledgers, parts.look_up)
        self._access = (
            None if parts.access is None else AccessGate(parts.access, self._ledgers, self._gate)
        )
        self._adds = AddRequests(
            storage,
            self._ledgers,
            self._turn,
            gate=self._gate,
            space=parts.space,
            entry_size_max=limits.entry_size_max,
        )
        self._watches = WatchRequests(
            self._ledgers, self._turn, watches, parts, self._on_tick, self._access
        )
        self._reads = ReadRequests(
            storage,
            self._ledgers,
            self._turn,
            gate=self._gate,
            watches=self._watches,
            read_size_max=limits.read_size_max,
        )

    @property
    def counts(self) -> AddCounts:
        """Counters of adds."""
        return self._turn.counts

    def unsynced(self, now_us: int) -> list[UnsyncedLedger]:
        """Return the ledgers with acknowledged entries in entry logs that no fsync covers."""
        return self._turn.log_syncs.unsynced(now_us)

    @property
    def refusals(self) -> Refusals:
        """Counts of refused requests."""
        return self._turn.refusals

    @property
    def queue_times(self) -> Buckets:
        """How long requests waited for their turn."""
        times = merged([self._turn.queue_times])
        times.observe(0, self._lent_count)
        return times

    @property
    def ledger_count(self) -> int:
        """The number of ledgers in the table."""
        return len(self._ledgers)

    def handle(self, message: StorageMessage) -> None:  # noqa: C901, PLR0912 - a case for each message
        """Handle one message, and send the output of the turn, in lists."""
        match message:
            case Requests(batch, received_us, lone_count):
                self._serve_received(batch, received_us, lone_count)
                self._lent_count += 1
            case RequestsWait():
                self._serve_waiting()
            case LookedUp():
                self._on_looked_up(message)
            case Synced():
                for ticket in self._turn.take_synced(message.journal_no, message.ticket):
                    self._on_synced(ticket)
                self._watches.on_synced(message.journal_no)
                if self._is_holding:
                    self._serve_waiting()
            case LogsSynced():
                self._on_logs_synced(message)
            case WatchesDue():
                self._watches.on_time()
            case Quiesce():
                self._serve_received(self._waiting.take_all(), 0)
                self._watches.wake_all()
                self._turn.begin()
                self._turn.logs_synced(self._turn.log_syncs.finish())
                for inbound in self._gate.give_up():
                    self._turn.refuse(inbound, BusyError("the bookie stops"))
                self._turn.when_synced(message.is_quiet)
                self._turn.end()
            case AskStorage():
                self._ledgers.keep_cursors()  # a checkpoint may write them
                message.answer()
            case EndCheckpoint(checkpoint, reply_to):
                self._storage.end_checkpoint(checkpoint)
                reply(reply_to, Answered(0))
                self._turn.log_syncs.want_all()  # the checkpoint has synced most of them
                self._turn.log_syncs.begin()
            case ForgetLedgers(ledger_ids, reply_to, wait_no):
                reply(reply_to, Answered(wait_no, self._forget(ledger_ids)))
            case ResolveAgain():
                self._reads.resolve_again(message.fetch)
            case SetKeys() | SetNamespaces() | GrantsChanged():
                self._on_access_changed(message)
            case _:
                assert_never(message)
        self._watches.answer()
        self._turn.send()

    def _forget(self, ledger_ids: Sequence[int]) -> bool:
        """Refuse ledgers from now on; return false if storage cannot remember more of them."""
        if not self._storage.mark_deleted(ledger_ids):
            return False
        for ledger_id in ledger_ids:
            self._ledgers.forget(ledger_id)
            self._watches.ledger_gone(ledger_id)
            self._turn.log_syncs.forget(ledger_id)
        return True

    def _on_tick(self) -> None:
        """Look at the watches soon. The ticker's thread."""
        self.actor_ref.tell(WatchesDue())

    # -------------------------------------------------------------- requests

    def _serve_waiting(self) -> None:
        """Serve a turn of the requests in the queue, and have the others served."""
        turn = self._turn
        turn.await_syncs(is_awaited=True)  # first: a sync that ends meanwhile reports it
        now_us = monotonic_us()
        taken = self._waiting.take(turn.unsynced_size, now_us)
        self._is_holding = taken.is_held
        self._throttle(taken.is_throttled)
        if not taken.is_held:
            turn.await_syncs(is_awaited=False)
        if taken.batch:  # else a stop has served them, or all are held
            self._serve_received(taken.batch, taken.received_us)
            turn.queue_times.observe(now_us - taken.received_us)
        if taken.is_more:
            self.actor_ref.tell(RequestsWait())

    def _throttle(self, is_throttled: bool) -> None:
        """Look at the queue again after a while, as long as clients are over their rates."""
        if is_throttled is not self._is_throttling:
            self._is_throttling = is_throttled
            if is_throttled:
                self._ticker.every(THROTTLE_TICK_MS, self._on_throttle_tick)
            else:
                self._ticker.cancel(self._on_throttle_tick)

    def _on_throttle_tick(self) -> None:
        """Look at the queue again. The ticker's thread."""
        self.actor_ref.tell(RequestsWait())

    def _serve_received(
        self, batch: Sequence[Inbound], received_us: int, lone_count: int = 1
    ) -> None:
        gate = self._gate
        admitted = (one for one in batch if not (gate.is_holding and self._waits(one)))
        self._serve(admitted, received_us, lone_count)

    def _serve(
        self, inbounds: Iterable[Inbound], received_us: int = 0, lone_count: int = 1
    ) -> None:
        """Serve requests in one turn; then look up the ledgers that are new here."""
        turn = self._turn
        turn.begin(received_us, lone_count)
        serve_one = self._on_request if self._access is None else self._on_checked_request
        for inbound in inbounds:
            try:
                serve_one(inbound)
            except ZbkError as error:
                turn.refuse(inbound, error)
        self._watches.answer()  # a LAC must not follow a higher one that a sync now makes
        turn.end()
        self._ask()

    def _ask(self) -> None:
        """Look up the ledgers that requests wait for."""
        asked = self._gate.ask()
        if self._access is not None and asked:
            self._access.asked(asked)

    def _on_looked_up(self, message: LookedUp) -> None:
        """Serve the requests that waited for a look-up."""
        access, findings = self._access, message.findings
        if access is None:
            self._serve(self._gate.released(findings))
            return
        if not access.begin_release(findings):
            asked = [*findings]
            access.asked(asked)
            self._gate.ask_again(asked)
            return
        self._serve(self._gate.released(findings))
        self._watches.check_access(findings)
        access.end_release()

    def _on_access_changed(self, message: AccessMessage) -> None:
        """Apply a change of rights from now on."""
        if self._access is None:
            return
        self._access.change(message)
        self._watches.check_access(
            message.ledger_ids if isinstance(message, GrantsChanged) else None
        )
        self._ask()

    def _waits(self, inbound: Inbound) -> bool:
        """Return whether a request waits after others of its ledger, or is refused."""
        try:
            return self._gate.holds_back(inbound)
        except BusyError as error:
            self._turn.refuse(inbound, error)
            return True

    def _on_checked_request(self, inbound: Inbound) -> None:
        assert self._access is not None, "rights are enforced"
        if self._access.admits(inbound):
            self._on_request(inbound)

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
                self._watches.watch_lacs(inbound, request)
            case WriteLac():
                self._adds.write_lac(inbound, request)
            case Sync():
                self._adds.sync(inbound, request)
            case GetLedgerInfo():
                self._reads.ledger_info(inbound, request)
            case GetBookieInfo() | CollectGarbage() | Scrub():
                self._turn.answer(inbound, self._status(request))
            case Hello() | Ping():
                raise MalformedMessageError("the front answers this itself")
            case _:
                assert_never(request)

    # -------------------------------------------------------------- promises

    def _on_logs_synced(self, message: LogsSynced) -> None:
        turn = self._turn
        turn.begin()
        if message.error is None:
            turn.logs_synced(turn.log_syncs.ended(message.directory_no))
        else:
            turn.refuse_waits(turn.log_syncs.failed(message.directory_no), message.error)
        turn.end()

    def _on_synced(self, ticket: Ticket) -> None:
        for slot in ticket.fenced:
            slot.ledger.fence_synced()
        for fetch in ticket.fetches:
            self._turn.fetch(fetch)
        for stored in ticket.stored:
            stored.slot.ledger.synced(stored.run)
            self._ledgers.cursor_moved(stored.slot)
        for inbound, slot in ticket.syncs:
            answer = SyncAnswer(
                request_id=inbound.request.request_id,
                incarnation=self._turn.incarnation,
                last_add_synced=slot.ledger.last_add_synced_of(stripe_of(inbound.request)),
            )
            self._turn.answer(inbound, answer)
        for waiting in ticket.quiesced:
            waiting.synced()
