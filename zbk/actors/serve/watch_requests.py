"""Requests for a LAC that is not known yet: a client waits for one ledger, or for many.

``lac_watches`` keeps the watches. Here their ledgers are looked up, and watches end when the LAC of
a ledger rises, when the ledger is fenced or deleted, or at their deadline.

Owned and run by the storage actor.

Source: BookKeeper's ``LongPollReadEntryProcessorV3``.
"""

from collections.abc import Callable, Iterable
from typing import Final

from zbk.actors.serve.access_gate import AccessGate
from zbk.actors.serve.lac_watch import Risen, SessionAnswered, Watch
from zbk.actors.serve.lac_watches import LacWatches
from zbk.actors.serve.ledger_table import LedgerSlot, LedgerTable
from zbk.actors.serve.parts import ServeParts
from zbk.actors.serve.refusals import answerable
from zbk.actors.serve.turn import Turn
from zbk.errors import BusyError, NoSuchLedgerError, ZbkError
from zbk.transport.inbound import Inbound
from zbk.wire.messages import LacsRisen, ReadLac, WatchLacs, WatchRefusal

WATCH_TICK_MS: Final = 100
"""The interval of looks at the deadlines of polls and sessions, while there are any."""


class WatchRequests:
    """Serves requests that wait for a LAC."""

    def __init__(
        self,
        ledgers: LedgerTable,
        turn: Turn,
        watches: LacWatches,
        parts: ServeParts,
        on_tick: Callable[[], None],
        access: AccessGate | None = None,
    ) -> None:
        self._ledgers = ledgers
        self._turn = turn
        self._watches = watches
        self._progresses = parts.progresses
        self._ticker = parts.ticker
        self._now_ms = parts.now_ms
        self._on_tick = on_tick
        self._access = access
        self._is_ticking = False

    # -------------------------------------------------------------- requests

    def read_lac(self, inbound: Inbound, request: ReadLac) -> None:
        """Answer with the durable LAC: now, or when it rises."""
        slot = self._ledgers.known(request)
        self._ledgers.check_fence_known(slot.ledger_id)
        lac = self._durable_lac(slot)
        has_news = lac > request.known_lac or slot.ledger.is_fenced
        if has_news or not request.wait_ms or self._watches.is_full(inbound.key):
            self._turn.answer(inbound, self._turn.lac_answer(inbound, lac))
            return
        self._watches.add_poll(inbound, request, self._now_ms())
        self._tick()
        self._await_sync(slot)

    def watch_lacs(self, inbound: Inbound, request: WatchLacs) -> None:
        """Continue the session of a connection, and add the watches that it begins."""
        session = self._watches.resume(inbound, request, self._now_ms())
        for asked in request.begun if session is not None else ():
            assert session is not None, "it was looked at first"
            if not self._watches.may_begin(session):
                self._watches.lose(session)
                break
            watch = self._watches.add(session, asked)
            if watch is not None:
                self._begin(watch)
        self._tick()

    def _begin(self, watch: Watch) -> None:
        """End a watch at once that has nothing to wait for."""
        try:
            if not self._is_allowed(watch):
                return
            slot = self._watched(watch)
        except ZbkError as error:
            self._watches.end(watch, answerable(error))
        else:
            if slot is not None:  # else its first entry may come
                self._await_sync(slot)

    def _is_allowed(self, watch: Watch) -> bool:
        """Return whether a client may know the LAC of a ledger; false: not known yet.

        Raises:
            ZbkError: it may not.
        """
        return self._access is None or self._access.may_watch(watch.key, watch.ledger_id)

    def _watched(self, watch: Watch) -> LedgerSlot | None:
        """Return the ledger of a watch; ``None``: it is not here yet.

        Raises:
            ZbkError: this client may not know its LAC.
        """
        slot = self._ledgers.find(watch.ledger_id)
        if slot is None:
            self._ledgers.check_not_deleted(watch.ledger_id)
            self._ledgers.check_miss(watch.ledger_id, watch.ledger_type)
        else:
            slot.ledger.check(watch.ledger_key, watch.ledger_type)
            self._ledgers.check_fence_known(slot.ledger_id)
        return slot

    # -------------------------------------------------------------- events

    def on_synced(self, journal_no: int) -> None:
        """End the watches of ledgers whose LAC has become durable."""
        for slot in self._watches.take_unsynced(journal_no):
            if slot.ledger_id in self._watches.ledgers:
                self._await_sync(slot)

    def on_time(self) -> None:
        """End the polls whose time is over."""
        for watch in self._watches.take_overdue(self._now_ms()):
            self._end_poll(watch)
        self._tick()

    def ledger_gone(self, ledger_id: int) -> None:
        """End the watches of a ledger that was deleted."""
        for watch in [*self._watches.ledgers.get(ledger_id, ())]:
            self._watches.end(watch, NoSuchLedgerError(ledger_id))

    def check_access(self, ledger_ids: Iterable[int] | None = None) -> None:
        """Look at the watches of ledgers again, or of all, after a change of rights."""
        known = self._watches.ledgers
        for ledger_id in [*known] if ledger_ids is None else ledger_ids:
            for watch in [*known.get(ledger_id, ())]:
                if self._watches.has(watch):  # one before it may have ended all of the ledger
                    self._begin(watch)

    def wake_all(self) -> None:
        """End all polls."""
        for watch in self._watches.take_all_polls():
            self._end_poll(watch)

    def rise(self, slot: LedgerSlot) -> None:
        """End the watches for which the LAC of a ledger is news, or all if it is fenced."""
        lac, is_fenced = self._durable_lac(slot), slot.ledger.is_fenced
        for watch in [*self._watches.ledgers.get(slot.ledger_id, ())]:
            if not (is_fenced or lac > watch.known_lac):
                continue
            try:  # the ledger may have come after the watch
                slot.ledger.check(watch.ledger_key, watch.ledger_type)
                if not self._is_allowed(watch):
                    continue
            except ZbkError as error:
                self._watches.end(watch, error)
            else:
                self._watches.end(watch, lac)

    def _await_sync(self, slot: LedgerSlot) -> None:
        """End the watches of a ledger that its LAC is news for; look again after a sync."""
        if slot.ticket > self._progresses[slot.journal_no].synced_ticket:
            self._watches.await_sync(slot)
        self.rise(slot)  # after that: a sync that ended before it was watched is not announced

    def _end_poll(self, watch: Watch) -> None:
        try:
            if not self._is_allowed(watch):
                raise BusyError(f"it looks up who may read ledger {watch.ledger_id}")
            slot = self._ledgers.find(watch.ledger_id)
        except ZbkError as error:
            self._watches.end(watch, answerable(error))
            return
        gone = NoSuchLedgerError(watch.ledger_id)
        self._watches.end(watch, gone if slot is None else self._durable_lac(slot))

    def _tick(self) -> None:
        """Look at the clock as long as there are watches or sessions."""
        is_ticking = not self._watches.is_idle
        if is_ticking is not self._is_ticking:
            self._is_ticking = is_ticking
            if is_ticking:
                self._ticker.every(WATCH_TICK_MS, self._on_tick)
            else:
                self._ticker.cancel(self._on_tick)

    # -------------------------------------------------------------- answers

    def answer(self) -> None:
        """Answer the requests whose watches have ended in this turn."""
        if not self._watches.has_answers:
            return
        for one in self._watches.take_answers(self._now_ms()):
            inbound = one.inbound
            if isinstance(one, SessionAnswered):
                self._turn.answer(inbound, self._session_answer(one))
            elif isinstance(one.outcome, ZbkError):
                self._turn.refuse(inbound, one.outcome)
            else:
                self._turn.answer(inbound, self._turn.lac_answer(inbound, one.outcome))

    def _session_answer(self, one: SessionAnswered) -> LacsRisen:
        refused = [
            (number, self._turn.refusal(one.inbound, error)) for number, error in one.refused
        ]
        return LacsRisen(
            request_id=one.inbound.request.request_id,
            incarnation=self._turn.incarnation,
            is_lost=one.is_lost,
            risen=[(risen.number, self._lac_now(risen)) for risen in one.risen],
            refused=[WatchRefusal(number, told.code, told.fields) for number, told in refused],
        )

    def _lac_now(self, risen: Risen) -> int:
        """Return the LAC at the time of the answer: others may have been told a higher one."""
        try:
            slot = self._ledgers.find(risen.ledger_id)
        except ZbkError as error:
            answerable(error)
            return risen.lac
        return risen.lac if slot is None else max(risen.lac, self._durable_lac(slot))

    def _durable_lac(self, slot: LedgerSlot) -> int:
        return slot.ledger.durable_lac(self._progresses[slot.journal_no].synced_ticket)
