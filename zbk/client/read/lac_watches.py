"""The LAC watches of a client: all of its tails share one request to each bookie.

The sessions (``read.lac_session``) belong to the pool's thread; watches begin and end in any
thread. Watches that begin while the pool is busy leave in one request. A bookie that does not know
sessions gets a long poll for each watch (``ReadLac``), until its connection is lost: after that it
may run another release.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from zbk.client.cluster.ledger_calls import LedgerRequests, lac_of
from zbk.client.cluster.requests import Requests
from zbk.errors import (
    ClientClosedError,
    UnavailableError,
    UnknownOperationError,
    ZbkError,
    from_wire,
)
from zbk.protocol.read.lac_session import LacSession, Watched, WatchEnd, WatchRequest
from zbk.transport.events import News, Reply, Sink
from zbk.wire.messages import LacAnswer, LacsRisen, LacWatch, WatchLacs

POLL_WAIT_MS: Final = 5_000
"""The time after which a bookie answers that no LAC has risen."""

CallSoon = Callable[[Callable[[], None]], bool]
"""Calls back in the pool's thread; returns false, and never calls, once the pool has ended."""


class _Waiter(msgspec.Struct, frozen=True, gc=False):
    """The receiver of one watch's reply."""

    bookie_id: str
    sink: Sink
    key: object


class _Began(msgspec.Struct, frozen=True, gc=False):
    watch: Watched
    waiter: _Waiter


class _Ended(msgspec.Struct, frozen=True, gc=False):
    number: int


class LacWatches:
    """The watches of a client. Each ends with one ``Reply``, unless it is dropped before.

    A reply has a ``LacAnswer`` or an error, as if each watch were a long poll of its own.
    """

    def __init__(self, requests: Requests, call_soon: CallSoon) -> None:
        self._requests = requests
        self._call_soon = call_soon
        self._numbers = itertools.count(1)
        self._session_ids = itertools.count(1)
        self._lock = threading.Lock()
        self._commands: deque[_Began | _Ended] = deque()
        self._is_scheduled = False
        # the pool's thread owns these
        self._waiters: dict[int, _Waiter] = {}
        self._sessions: dict[str, LacSession] = {}
        self._old_bookies: set[str] = set()

    # -------------------------------------------------------------- any thread

    def begin(
        self, bookie_id: str, ledger: LedgerRequests, known_lac: int, sink: Sink, key: object
    ) -> int:
        """Start to wait for a LAC above ``known_lac``; return the watch's number."""
        number = next(self._numbers)
        watch = Watched(number, ledger.ledger_id, ledger.ledger_key, ledger.ledger_type, known_lac)
        if not self._command(_Began(watch, _Waiter(bookie_id, sink, key))):
            sink.deliver([Reply(bookie_id, key, ClientClosedError())])
        return number

    def end(self, number: int) -> None:
        """Drop a watch; a reply that is under way may still come."""
        self._command(_Ended(number))

    def _command(self, command: _Began | _Ended) -> bool:
        with self._lock:
            self._commands.append(command)
            if self._is_scheduled:
                return True
            self._is_scheduled = True
        if self._call_soon(self._obey):
            return True
        with self._lock:  # the client was closed
            self._commands.clear()
            self._is_scheduled = False
        return False

    # -------------------------------------------------------------- the pool's thread

    def _obey(self) -> None:
        with self._lock:
            commands, self._commands = self._commands, deque()
            self._is_scheduled = False
        bookies: dict[str, None] = {}
        for command in commands:
            if isinstance(command, _Began):
                waiter = command.waiter
                self._waiters[command.watch.number] = waiter
                self._session(waiter.bookie_id).begin(command.watch)
                bookies[waiter.bookie_id] = None
            else:
                known = self._waiters.pop(command.number, None)
                if known is not None:
                    self._session(known.bookie_id).end(command.number)
        for bookie_id in bookies:
            self._send(bookie_id)

    def deliver(self, news: list[News]) -> None:
        """Handle replies of bookies."""
        for one in news:
            assert isinstance(one, Reply), "the watches subscribe to nothing else"
            if isinstance(one.key, WatchRequest):
                self._on_reply(one, one.key)
            else:
                assert isinstance(one.key, int), "the key of a long poll is the watch's number"
                if isinstance(one.outcome, UnavailableError):
                    self._old_bookies.discard(one.bookie_id)
                self._end([(one.key, lac_of(one))])

    def _on_reply(self, reply: Reply, request: WatchRequest) -> None:
        session = self._session(reply.bookie_id)
        match reply.outcome:
            case LacsRisen() as answer:
                refused = [
                    (one.number, from_wire(one.code, tuple(one.fields))) for one in answer.refused
                ]
                ends = session.answered(request, answer.risen, refused, is_lost=answer.is_lost)
                self._end(ends)
            case UnknownOperationError():
                self._old_bookies.add(reply.bookie_id)
            case _:
                self._end(session.failed(request, reply.error))
        self._send(reply.bookie_id)

    def _send(self, bookie_id: str) -> None:
        session = self._session(bookie_id)
        if bookie_id in self._old_bookies:
            for watch in session.take_all():
                self._poll(bookie_id, watch)
        while (request := session.next_request()) is not None:
            message = WatchLacs(
                request_id=0,
                session_id=request.session_id,
                is_first=request.is_first,
                begun=[_to_wire(watch) for watch in request.begun],
                ended=list(request.ended),
                wait_ms=POLL_WAIT_MS,
            )
            self._requests.send(bookie_id, message, (), self, request, wait_ms=POLL_WAIT_MS)
        if not len(session):
            del self._sessions[bookie_id]

    def _poll(self, bookie_id: str, watch: Watched) -> None:
        ledger = LedgerRequests(watch.ledger_id, watch.ledger_type, watch.ledger_key)
        built = ledger.read_lac(known_lac=watch.known_lac, wait_ms=POLL_WAIT_MS)
        self._requests.send(bookie_id, *built, self, watch.number, wait_ms=POLL_WAIT_MS)

    def _session(self, bookie_id: str) -> LacSession:
        session = self._sessions.get(bookie_id)
        if session is None:
            session = self._sessions[bookie_id] = LacSession(self._session_ids)
        return session

    def _end(self, ends: Iterable[WatchEnd]) -> None:
        """Report the ends of watches, to each sink in one call."""
        told: dict[int, tuple[Sink, list[News]]] = {}
        for number, outcome in ends:
            waiter = self._waiters.pop(number, None)
            if waiter is None:
                continue  # it was dropped
            if isinstance(outcome, ZbkError):
                reply = Reply(waiter.bookie_id, waiter.key, outcome)
            else:
                answer = LacAnswer(request_id=0, lac=outcome)
                reply = Reply(waiter.bookie_id, waiter.key, answer)
            told.setdefault(id(waiter.sink), (waiter.sink, []))[1].append(reply)
        for sink, replies in told.values():
            sink.deliver(replies)


def _to_wire(watch: Watched) -> LacWatch:
    return LacWatch(
        watch.number, watch.ledger_id, watch.ledger_key, watch.ledger_type, watch.known_lac
    )
