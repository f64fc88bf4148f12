"""Clients that wait for LACs: each is answered when one rises, or at its deadline.

A *watch* waits for the LAC of one ledger to rise above the one that its client knows, and ends
once. It belongs to a *poll*, which is one request for one ledger, or to a *session*, in which a
connection waits for many ledgers with one request at a time (``WatchLacs``). A ledger needs not be
known here for a session to watch it.

A LAC counts once it is on stable storage. Ledgers whose LAC is on its way there are kept apart,
so that a sync costs nothing for those that are idle.

Limits: ``WATCH_COUNT_MAX`` watches in all, half of them with one key, and
``SESSION_WATCH_COUNT_MAX`` in a session. Refusals that a session has not heard of have the same
limits; a session that asks on beyond them is lost, and its client begins another one. A poll waits
for ``WAIT_MS_MAX`` at most. A session without a request for ``SESSION_IDLE_MS`` is forgotten, so a
client that is gone costs memory for that time only.

A pure part of the storage actor, which owns it and says what time it is.

Source: BookKeeper's ``LongPollReadEntryProcessorV3``; sessions as in Kafka's KIP-227.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Final

from zbk.actors.serve.lac_watch import (
    NEVER_MS,
    PollEnded,
    Risen,
    Session,
    SessionAnswered,
    Watch,
)
from zbk.actors.serve.ledger_table import LedgerSlot
from zbk.actors.serve.sync_queue import SyncProgress
from zbk.errors import BusyError, ZbkError
from zbk.transport.inbound import Inbound
from zbk.transport.peers import SHARE_PART
from zbk.wire.messages import (
    RISEN_COUNT_MAX,
    WATCH_REFUSED_COUNT_MAX,
    LacWatch,
    ReadLac,
    WatchLacs,
)

WATCH_COUNT_MAX: Final = 65_536
"""Watches at one bookie; one more poll is answered at once, one more of a session is refused."""

SESSION_WATCH_COUNT_MAX: Final = 16_384
WAIT_MS_MAX: Final = 60_000
"""The longest wait; a longer one is cut. Connections that are silent for longer are forgotten."""

SESSION_IDLE_MS: Final = 30_000
POLL_SLACK_COUNT: Final = 1_000
"""Deadlines of polls that have ended, beyond as many as there are watches, before they go."""


class LacWatches:
    """All watches of a bookie.

    Invariants, checked in ``_check``:
      * a ledger is here as long as there is a watch of it, and ``len`` is the number of watches;
      * a session's watches are among those of their ledgers.
    """

    def __init__(
        self,
        progresses: Sequence[SyncProgress] = (),
        *,
        count_max: int = WATCH_COUNT_MAX,
        session_count_max: int = SESSION_WATCH_COUNT_MAX,
    ) -> None:
        self._progresses = progresses
        self._count_max = count_max
        self._session_count_max = session_count_max
        self._watches: dict[int, dict[Watch, None]] = {}  # by ledger
        self._count = 0
        self._counts: dict[str, int] = {}  # by key
        self._untold_count = 0  # refusals that sessions have not heard of
        self._sessions: dict[bytes, Session] = {}  # by connection
        self._unsynced: list[dict[LedgerSlot, None]] = [{} for _ in progresses]  # of each journal
        self._serial = count()
        self._polls: list[tuple[int, int, Watch]] = []  # a heap of deadlines
        self._sessions_due_ms = NEVER_MS  # no session is due before
        self._ready: dict[Session, None] = {}  # to be answered
        self._answers: list[PollEnded | SessionAnswered] = []

    def __len__(self) -> int:
        return self._count

    def is_full(self, key: str) -> bool:
        """Return whether no watch of a connection with this key may be added."""
        is_share_used = bool(key) and self._counts.get(key, 0) >= self._count_max // SHARE_PART
        return is_share_used or self._count >= self._count_max

    @property
    def is_idle(self) -> bool:
        """True when time makes no difference."""
        return not (self._count or self._sessions)

    @property
    def has_answers(self) -> bool:
        """True when ``take_answers`` has something to return."""
        return bool(self._ready or self._answers)

    @property
    def ledgers(self) -> Mapping[int, Iterable[Watch]]:
        """The ledgers that are waited for, and their watches."""
        return self._watches

    def has(self, watch: Watch) -> bool:
        """Return whether a watch has not ended."""
        return watch in self._watches.get(watch.ledger_id, ())

    # -------------------------------------------------------------- what clients ask for

    def add_poll(self, inbound: Inbound, request: ReadLac, now_ms: int) -> None:
        """Add the watch of a poll."""
        assert not self.is_full(inbound.key), "the limit is looked at first"
        watch = Watch(
            request.ledger_id,
            request.ledger_key,
            request.ledger_type,
            request.known_lac,
            inbound=inbound,
            key=inbound.key,
        )
        self._add(watch)
        due_ms = now_ms + min(request.wait_ms, WAIT_MS_MAX)
        heapq.heappush(self._polls, (due_ms, next(self._serial), watch))
        if len(self._polls) > 2 * self._count + POLL_SLACK_COUNT:  # most of them have ended
            self._polls = [one for one in self._polls if self.has(one[2])]
            heapq.heapify(self._polls)

    def resume(self, inbound: Inbound, request: WatchLacs, now_ms: int) -> Session | None:
        """Return the session of a request, without the watches that it leaves.

        ``None``: the request is answered. Its session is not known, or it is a repeated request:
        the ids of a connection's requests ascend.
        """
        session = self._sessions.get(inbound.peer)
        if session is not None and request.request_id <= session.last_request_id:
            self._answers.append(SessionAnswered(inbound))
            return None
        if session is not None and (request.is_first or session.session_id != request.session_id):
            if not request.is_first:  # of a session before this one, which goes on
                self._answers.append(SessionAnswered(inbound, is_lost=True))
                return None
            self._end_session(session)
            session = None
        if session is None:
            if not request.is_first:
                self._answers.append(SessionAnswered(inbound, is_lost=True))
                return None
            session = self._sessions[inbound.peer] = Session(inbound.peer, request.session_id)
        if session.inbound is not None:
            self._answer(session, now_ms)
        session.inbound = inbound
        session.last_request_id = request.request_id
        self._set_due(session, now_ms + min(request.wait_ms, WAIT_MS_MAX))
        for number in request.ended:
            watch = session.watches.get(number)
            if watch is not None:
                self._remove(watch)
        if session.has_news:
            self._ready[session] = None
        return session

    def may_begin(self, session: Session) -> bool:
        """Return whether a session may begin a watch, which might be refused.

        One that hears of all its refusals in the next answer always may.
        """
        count = len(session.refused)
        has_room = count < self._session_count_max and self._untold_count < self._count_max
        return has_room or count <= WATCH_REFUSED_COUNT_MAX

    def lose(self, session: Session) -> None:
        """Forget a session; its request hears of that, and its client begins another one."""
        assert session.inbound is not None, "it has just asked"
        self._answers.append(SessionAnswered(session.inbound, is_lost=True))
        session.inbound = None
        self._end_session(session)

    def add(self, session: Session, asked: LacWatch) -> Watch | None:
        """Add a watch to a session; ``None``: there is no room, and the client hears of it."""
        known = session.watches.get(asked.number)
        if known is not None:  # its number stands for this one from now on
            self._remove(known)
        watch = Watch(
            asked.ledger_id,
            asked.ledger_key,
            asked.ledger_type,
            asked.known_lac,
            session=session,
            number=asked.number,
            key="" if session.inbound is None else session.inbound.key,
        )
        if self.is_full(watch.key) or len(session.watches) >= self._session_count_max:
            self._tell(watch, BusyError("the bookie has too many long polls"))
            return None
        session.watches[asked.number] = watch
        self._add(watch)
        return watch

    # -------------------------------------------------------------- what happens

    def recorded(self, slot: LedgerSlot) -> None:
        """Record that a ledger has a LAC which is not on stable storage yet."""
        if slot.ledger_id in self._watches:
            self.await_sync(slot)

    def await_sync(self, slot: LedgerSlot) -> None:
        """Return a ledger from ``take_unsynced`` after each sync, until its LAC is durable."""
        self._unsynced[slot.journal_no][slot] = None
        # before the next look at the ticket: a sync that ends after it is announced
        self._progresses[slot.journal_no].is_watched = True

    def take_unsynced(self, journal_no: int) -> Sequence[LedgerSlot]:
        """Return, and forget, the ledgers that wait for a sync of a journal."""
        slots, self._unsynced[journal_no] = self._unsynced[journal_no], {}
        self._progresses[journal_no].is_watched = False
        return list(slots)

    def end(self, watch: Watch, outcome: int | ZbkError) -> None:
        """End a watch with a LAC, or with an error."""
        self._remove(watch)
        self._tell(watch, outcome)

    def take_overdue(self, now_ms: int) -> Sequence[Watch]:
        """Return the watches of polls that have waited as long as they wished; end sessions."""
        overdue = []
        while self._polls and self._polls[0][0] <= now_ms:
            watch = heapq.heappop(self._polls)[2]
            if self.has(watch):
                overdue.append(watch)
        if now_ms >= self._sessions_due_ms:
            self._sessions_due_ms = NEVER_MS
            for session in list(self._sessions.values()):
                if now_ms < session.due_ms:
                    self._sessions_due_ms = min(self._sessions_due_ms, session.due_ms)
                elif session.inbound is None:
                    self._end_session(session)
                else:
                    self._ready[session] = None
        return overdue

    def take_all_polls(self) -> Sequence[Watch]:
        """Return the watches of all polls; have all sessions answered."""
        self._ready.update({s: None for s in self._sessions.values() if s.inbound is not None})
        return [one for some in self._watches.values() for one in some if one.session is None]

    def take_answers(self, now_ms: int) -> Sequence[PollEnded | SessionAnswered]:
        """Return, and forget, what is to be answered."""
        if self._ready:
            ready, self._ready = self._ready, {}
            for session in ready:
                if session.inbound is not None:
                    self._answer(session, now_ms)
        answers, self._answers = self._answers, []
        return answers

    # -------------------------------------------------------------- private

    def _add(self, watch: Watch) -> None:
        self._watches.setdefault(watch.ledger_id, {})[watch] = None
        self._count += 1
        self._counts[watch.key] = self._counts.get(watch.key, 0) + 1
        self._check(watch)

    def _remove(self, watch: Watch) -> None:
        watches = self._watches[watch.ledger_id]
        del watches[watch]
        if not watches:
            del self._watches[watch.ledger_id]
        self._count -= 1
        self._counts[watch.key] -= 1
        if not self._counts[watch.key]:
            del self._counts[watch.key]
        if watch.session is not None:
            del watch.session.watches[watch.number]
        self._check(watch)

    def _tell(self, watch: Watch, outcome: int | ZbkError) -> None:
        session = watch.session
        if session is None:
            assert watch.inbound is not None, "a watch without a session is a poll's"
            self._answers.append(PollEnded(watch.inbound, outcome))
            return
        if isinstance(outcome, ZbkError):
            # its frames would stay as long as it is not told
            session.refused.append((watch.number, outcome.with_traceback(None)))
            self._untold_count += 1
        else:
            session.risen.append(Risen(watch.number, watch.ledger_id, outcome))
        if session.inbound is not None:
            self._ready[session] = None

    def _answer(self, session: Session, now_ms: int) -> None:
        assert session.inbound is not None, "it waits for an answer"
        risen, refused = session.risen, session.refused
        answer = SessionAnswered(
            session.inbound, risen[:RISEN_COUNT_MAX], refused[:WATCH_REFUSED_COUNT_MAX]
        )
        self._answers.append(answer)
        session.risen, session.refused = (
            risen[RISEN_COUNT_MAX:],
            refused[WATCH_REFUSED_COUNT_MAX:],
        )
        self._untold_count -= len(answer.refused)
        session.inbound = None
        self._set_due(session, now_ms + SESSION_IDLE_MS)

    def _end_session(self, session: Session) -> None:
        """Forget a session with its watches; its request is answered as if nothing had happened."""
        if session.inbound is not None:
            self._answers.append(SessionAnswered(session.inbound))
            session.inbound = None
        for watch in list(session.watches.values()):
            self._remove(watch)
        self._untold_count -= len(session.refused)
        self._ready.pop(session, None)
        del self._sessions[session.peer]

    def _set_due(self, session: Session, due_ms: int) -> None:
        session.due_ms = due_ms
        self._sessions_due_ms = min(self._sessions_due_ms, due_ms)

    def _check(self, watch: Watch) -> None:
        if watch.session is not None:
            is_listed = watch.session.watches.get(watch.number) is watch
            assert is_listed is self.has(watch)
        assert 0 <= len(self._watches) <= self._count <= self._count_max
