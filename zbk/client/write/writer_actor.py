"""The writer actor: serves many ledgers that this client writes, each with a ``WriterBody``.

mailbox     Drain, when appends wait in the mailboxes of writers; Deliver, news from the
            connections; ForWriter, a call of the application or a result of the metadata actor;
            Join and Leave, when a writer begins and ends; WritableChanged, from the directory of
            bookies; TimePassed, from the connections' timers, when a writer is due; LookAround,
            every second at most, from the ticker
answers     the futures of the application, in this actor's thread or in that of the connections,
            which handles messages itself while the actor is idle (``DirectInbox``)
owns        the writers' bodies, and the time when each of them is due (``deadlines``)
on failure  of a writer: it ends with its pending calls, its ledger is left to recovery, and the
            others continue. Of the actor itself: all writers end

A turn handles everything that waits for any of the ledgers. An open ledger costs memory, but no
thread and no tick.
"""

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, TypeAlias, assert_never

import msgspec
import pykka

from zbk.client.deadlines import Deadlines
from zbk.client.write.writer_body import WriterBody, WriterMessage
from zbk.client.write.writer_requests import writer_of
from zbk.errors import BookieUnavailableError, LedgerClosedError, ZbkError
from zbk.system.clock import monotonic_ms
from zbk.system.direct_inbox import DirectInbox, Door, Failed
from zbk.system.event_log import EventLog
from zbk.transport.dealer import BookiePool
from zbk.transport.events import News

LOG = EventLog(__name__)


LENT_SIZE_MAX: Final = 64 * 1024
"""Bytes of one writer's appends that the thread of the connections encodes itself."""


class Drain(msgspec.Struct, frozen=True):
    """Appends wait in the mailboxes of writers."""


class Deliver(msgspec.Struct, frozen=True):
    """News from the connections."""

    news: list[News]


class ForWriter(msgspec.Struct, frozen=True):
    """A message for one writer."""

    writer: WriterBody
    message: WriterMessage


class Join(msgspec.Struct, frozen=True):
    """A writer begins."""

    writer: WriterBody


class Leave(msgspec.Struct, frozen=True):
    """A writer ends: its ledger was closed, or failed to be."""

    writer: WriterBody


class WritableChanged(msgspec.Struct, frozen=True):
    """Bookies have begun or ceased to take new entries."""


class TimePassed(msgspec.Struct, frozen=True):
    """A writer may be due."""


class LookAround(msgspec.Struct, frozen=True):
    """Handles of writers were dropped without a close."""


ActorMessage: TypeAlias = (
    Drain | Deliver | ForWriter | Join | Leave | WritableChanged | TimePassed | LookAround | Failed
)


class WriterDoor(Door):
    """The entrance of a writer actor. Any thread, unless a method says otherwise.

    The thread of the connections handles a message for an idle actor itself, which saves a wake-up.
    The application's thread does not: an interrupt could stop it in the middle of a message.
    """

    def __init__(self, pool: BookiePool) -> None:
        super().__init__()
        self._pool = pool
        self._lock = threading.Lock()
        self._roused: list[WriterBody] = []
        self._is_roused = False
        self.dropped: list[WriterBody] = []  # their handles are gone, and they have not ended
        self.turn_thread_id = 0  # the thread that handles a message of the actor now

    def rouse(self, writer: WriterBody, *, is_lone: bool) -> None:
        """Report that appends wait in the mailbox of a writer; once until they are taken."""
        if threading.get_ident() == self.turn_thread_id:  # the callback of a future appends
            assert isinstance(self.actor, WriterActor), "writers run in an actor"
            self.actor.drain_soon(writer)
            return
        with self._lock:
            self._roused.append(writer)
            if self._is_roused:
                return
            self._is_roused = True
        if not (is_lone and self._pool.call_soon(self._drain)):
            self.leave_message(Drain())

    def take_roused(self) -> list[WriterBody]:
        """Return the writers in whose mailboxes appends wait. The actor's thread."""
        with self._lock:
            writers, self._roused = self._roused, []
            self._is_roused = False
        return writers

    @property
    def is_open(self) -> bool:
        """True while there is an actor."""
        return self.actor is not None and self.actor.actor_ref.is_alive()

    @property
    def writer_count(self) -> int:
        """The number of writers that the actor serves."""
        return self.actor.writer_count if isinstance(self.actor, WriterActor) else 0

    def unsynced(self) -> list[tuple[int, int]]:
        """Return ``WriterBody.unsynced`` of each writer that has something un-synced."""
        writers = self.actor.writers if isinstance(self.actor, WriterActor) else []
        return [found for one in writers if (found := one.unsynced) is not None]

    def stop(self) -> None:
        """Stop the actor after its earlier messages, and wait for its end."""
        if self.actor is not None:
            self.actor.actor_ref.stop()

    def tell_writer(self, writer: WriterBody, message: WriterMessage) -> None:
        """Leave a message for a writer. If the actor has stopped, the writer has ended."""
        self.leave_message(ForWriter(writer, message))

    def end_writer(self, writer: WriterBody) -> None:
        """End a writer after its earlier messages."""
        self.leave_message(Leave(writer))

    def forget(self, writer: WriterBody) -> None:
        """Record that a writer has ended. The actor's thread."""
        assert isinstance(self.actor, WriterActor), "writers run in an actor"
        self.actor.forget(writer)

    def leave_message(self, message: ActorMessage) -> bool:
        """Leave a message for the actor; return false if it has stopped."""
        try:
            self.tell(message)
        except pykka.ActorDeadError:
            return False
        return True

    def deliver(self, news: list[News]) -> None:
        """Pass on news. The thread of the connections."""
        self._hand_on(Deliver(news))

    def time_passed(self) -> None:
        """Report that a requested time has come. The thread of the connections."""
        self._hand_on(TimePassed())

    def _drain(self) -> None:
        self._hand_on(Drain())

    def _hand_on(self, message: Deliver | Drain | TimePassed) -> None:
        if not self.hand(message):
            self.leave_message(message)


class WriterActor(DirectInbox, pykka.ThreadingActor):
    """The body of many writers."""

    use_daemon_thread = True

    def __init__(
        self, door: WriterDoor, pool: BookiePool, now_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        super().__init__()
        self._door = door
        self._pool = pool
        self._now_ms = now_ms
        self._writers: dict[WriterBody, None] = {}
        self._deadlines = Deadlines[WriterBody]()
        self._undrained: dict[WriterBody, None] = {}  # with appends in their mailboxes, in turn
        self._moved: dict[WriterBody, None] = {}  # in this turn: they may be due at another time
        self._asked_ms: int | None = None  # when the connections' timer calls
        self._call_me = door.time_passed
        self._thread_id = 0
        door.actor = self

    def on_start(self) -> None:
        """Record the actor's own thread."""
        self._thread_id = threading.get_ident()

    def on_receive(self, message: ActorMessage) -> None:
        """Pass a message to the writers that it concerns; then drain mailboxes."""
        self._door.turn_thread_id = threading.get_ident()
        try:
            now_ms = self._now_ms()
            self._handle(message, now_ms)
            self._drain()
            self._note_deadlines(now_ms)
            self._ask_for_time()
        finally:
            self._door.turn_thread_id = 0

    def _handle(self, message: ActorMessage, now_ms: int) -> None:
        match message:
            case Deliver(news):
                self._take_in(news, now_ms)
            case Drain():
                self._undrained.update(dict.fromkeys(self._door.take_roused()))
            case TimePassed():
                self._asked_ms = None
                self._each(self._deadlines.take_due(now_ms), WriterBody.tick, now_ms)
            case ForWriter(writer, wanted):
                self._each([writer], lambda one, now_ms: one.handle(wanted, now_ms), now_ms)
            case Join(writer):
                self._writers[writer] = None
                self._each([writer], lambda one, _now_ms: one.start(), now_ms)
            case Leave(writer):
                self._end(writer, LedgerClosedError(writer.ledger_id))
            case WritableChanged():
                self._each(list(self._writers), WriterBody.bookies_changed, now_ms)
            case LookAround():
                self._end_dropped()
            case Failed():
                raise message.error
            case _:
                assert_never(message)

    def on_stop(self) -> None:
        """End all writers; everything that waits fails."""
        for writer in list(self._writers):
            self._end(writer, LedgerClosedError(writer.ledger_id))

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Fail all pending calls: after a bug of the actor, nothing may hang."""
        del exception_type, traceback
        for writer in list(self._writers):
            self._end(writer, _failure(exception_value))

    def drain_soon(self, writer: WriterBody) -> None:
        """Drain the mailbox of a writer at the end of this turn. The thread that has the turn."""
        self._undrained[writer] = None

    @property
    def writer_count(self) -> int:
        """The number of open writers."""
        return len(self._writers)

    @property
    def writers(self) -> list[WriterBody]:
        """The open writers. Any thread."""
        return list(self._writers)

    def forget(self, writer: WriterBody) -> None:
        """Record that a writer has ended. The writer calls this itself."""
        self._writers.pop(writer, None)
        self._undrained.pop(writer, None)
        self._moved.pop(writer, None)
        self._deadlines.put(writer, None)

    # -------------------------------------------------------------- a turn

    def _take_in(self, news: list[News], now_ms: int) -> None:
        by_writer: dict[WriterBody, list[News]] = {}
        for one in news:
            writer = writer_of(one)
            own = by_writer.get(writer)
            if own is None:
                by_writer[writer] = [one]
            else:
                own.append(one)
        self._each(
            by_writer, lambda writer, now_ms: writer.take_in(by_writer[writer], now_ms), now_ms
        )

    def _drain(self) -> None:
        """Remove appends from mailboxes, a slice of each writer in turn, until a message waits.

        A writer that appends at full speed delays the others by one slice at most.
        """
        if not self._undrained:
            return
        is_lent = threading.get_ident() != self._thread_id
        while self._undrained:
            # one that is held up is drained by its own turn, once it is held up no longer
            writers = [one for one in self._undrained if one.may_drain]
            self._undrained = {}
            large: dict[WriterBody, None] = {}
            if is_lent:  # to encode much takes time that the connections' thread does not have
                large = dict.fromkeys(one for one in writers if one.waiting_size > LENT_SIZE_MAX)
                writers = [one for one in writers if one not in large]
            self._each(writers, WriterBody.drain, self._now_ms())
            if large:
                self._undrained.update(large)
                self.actor_ref.tell(Drain())
                return
            if self.actor_inbox.has_waiting:
                return  # each message that is handled comes back here

    def _each(
        self, writers: Iterable[WriterBody], act: Callable[[WriterBody, int], None], now_ms: int
    ) -> None:
        for writer in writers:
            if not writer.is_ended:
                self._moved[writer] = None
                try:
                    act(writer, now_ms)
                except Exception as error:  # noqa: BLE001 - it ends this writer, and no other
                    self._fail(writer, error)
                if writer.may_drain:
                    self._undrained[writer] = None

    def _note_deadlines(self, now_ms: int) -> None:
        """Record when each writer that did something in this turn is due."""
        moved, self._moved = self._moved, {}
        put = self._deadlines.put
        for writer in moved:
            put(writer, writer.due_ms(now_ms))

    def _fail(self, writer: WriterBody, error: Exception) -> None:
        _log_failure(writer, error)
        self._end(writer, _failure(error))

    def _end(self, writer: WriterBody, error: ZbkError) -> None:
        """End a writer; a bug in that ends no other, and keeps no other from its end."""
        try:
            writer.end(error)
        except Exception as bug:  # noqa: BLE001 - as in ``_each``
            _log_failure(writer, bug)
            self.forget(writer)

    def _end_dropped(self) -> None:
        """End writers without handles, as if their client had been closed."""
        dropped = self._door.dropped
        writers = [dropped.pop() for _ in range(len(dropped))]  # the garbage collector adds some
        for writer in writers:
            if writer.is_done_with:
                self._end(writer, LedgerClosedError(writer.ledger_id))
            elif not writer.is_ended:
                dropped.append(writer)

    def _ask_for_time(self) -> None:
        next_ms = self._deadlines.correct()
        if next_ms != self._asked_ms:
            self._asked_ms = next_ms
            self._pool.call_at(next_ms, self._call_me)


def _log_failure(writer: WriterBody, error: Exception) -> None:
    LOG.error(
        "writer.failed",
        "the writer of ledger %(ledger_id)d failed",
        ledger_id=writer.ledger_id,
        exc_info=error,
    )


def _failure(error: BaseException | None) -> ZbkError:
    return BookieUnavailableError("(all)", f"the writer failed: {error!r}")
