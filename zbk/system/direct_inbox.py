"""An actor's inbox that lets a sender handle a message itself while the actor is idle.

Waking a thread costs the waker and the woken thread some 10 µs each, more than most messages take.
A thread that has a small message for an idle actor, and would wait afterwards, handles it in place
of the actor: ``handle_here``. The actor's guarantees stay: one message at a time, messages of one
sender in order, and a failure ends the actor in its own thread.

A *turn* is the right to handle messages. The actor's thread has it except while it waits for a
message. Threads in which ``KeyboardInterrupt`` may be raised must not use it: the interrupt would
stop a message half-way.
"""

import queue
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec


class Failed(msgspec.Struct, frozen=True):
    """Message to the actor: a message failed in ``handle_here``; the actor raises the error."""

    error: BaseException


class TurnQueue:
    """An inbox with a turn. Only the actor calls ``get``; any thread may call the rest."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock: Final = threading.Lock()
        self._waiting_count = 0  # put, and not yet taken with the turn
        self._has_failed = False
        self._turn: Final = threading.Lock()
        self._turn.acquire()  # the actor starts

    def put(self, envelope: Any) -> None:  # noqa: ANN401 - pykka's own type is private
        """Put a message into the inbox."""
        with self._lock:
            self._waiting_count += 1
        self._queue.put(envelope)

    def get(self) -> Any:  # noqa: ANN401 - as above
        """Wait for a message without the turn, and return it with the turn."""
        self._turn.release()
        envelope = self._queue.get()
        self._turn.acquire()
        if self._has_failed:  # first: no message may be handled after a failure
            self._has_failed = False
            ahead = []
            while not isinstance(envelope.message, Failed):
                ahead.append(envelope)
                envelope = self._queue.get()
            for one in ahead:
                self._queue.put(one)
        with self._lock:
            self._waiting_count -= 1
        return envelope

    def empty(self) -> bool:
        """Return whether no message waits."""
        return self._queue.empty()

    def qsize(self) -> int:
        """Return how many messages wait."""
        return self._queue.qsize()

    @property
    def has_waiting(self) -> bool:
        """True while a message waits, also one that the actor took and that waits for the turn."""
        return self._waiting_count > 0

    def try_begin(self) -> bool:
        """Acquire the turn if the actor waits without a message; return whether it did."""
        with self._lock:
            return not self._waiting_count and self._turn.acquire(blocking=False)

    def note_failure(self) -> None:
        """Record that a ``Failed`` was put, which must be the next message."""
        self._has_failed = True

    def end(self) -> None:
        """Release the turn."""
        self._turn.release()


class DirectInbox:
    """Mix into a ``pykka.ThreadingActor``, in front of it; its ``on_receive`` raises ``Failed``."""

    if TYPE_CHECKING:
        actor_inbox: Any
        actor_ref: Any
        actor_stopped: threading.Event

        def on_receive(self, message: Any) -> Any:  # noqa: ANN401 - as pykka has it
            """As pykka has it."""

    @staticmethod
    def _create_actor_inbox() -> TurnQueue:
        return TurnQueue()

    def handle_here(self, message: object) -> bool:
        """Handle a message in the calling thread if the actor is idle; return whether it was."""
        inbox: TurnQueue = self.actor_inbox
        if not inbox.try_begin():
            return False
        try:
            if self.actor_stopped.is_set():
                return False
            self.on_receive(message)
        except Exception as error:  # noqa: BLE001 - it is raised where pykka expects it
            self.actor_ref.tell(Failed(error))
            inbox.note_failure()
        finally:
            inbox.end()
        return True


class Door:
    """Passes messages to an actor with a direct inbox, which registers itself. Any thread.

    The actor may be created after the door, but before the first message.
    """

    def __init__(self) -> None:
        self.actor: DirectInbox | None = None

    def hand(self, message: object) -> bool:
        """Handle a message in the calling thread if the actor is idle; return whether it was."""
        assert self.actor is not None, "the actor was made"
        return self.actor.handle_here(message)

    def tell(self, message: object) -> None:
        """Put a message into the actor's inbox.

        Raises:
            pykka.ActorDeadError: the actor has stopped.
        """
        assert self.actor is not None, "the actor was made"
        self.actor.actor_ref.tell(message)
