"""The actors that wait for the metadata store, so that writers do not.

mailbox     MetadataTask, from writers and the client
answers     the task's ``done`` with a result or an error, in this actor's thread
owns        nothing: the store is shared and thread-safe
on failure  cannot fail: an error of a task is its answer
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pykka

from zbk.errors import ClientClosedError, MetadataUnavailableError, ZbkError
from zbk.system.light_inbox import LightInbox

ACTOR_COUNT: Final = 8
"""The number of actors. A store on the network answers each task after milliseconds, but thousands
of tasks a second, so several ledgers wait for it at the same time."""


class MetadataTask(msgspec.Struct, frozen=True):
    """A call of the metadata store, and the receiver of its outcome."""

    run: Callable[[], Any]
    done: Callable[[Any | ZbkError], None]


class MetadataActor(LightInbox, pykka.ThreadingActor):
    """Runs tasks against the metadata store, one after another."""

    use_daemon_thread = True

    def __init__(self, is_ending: threading.Event) -> None:
        super().__init__()
        self._is_ending = is_ending
        self._is_store_silent = False  # at the end: each task would wait for all of its time-out

    def on_receive(self, message: MetadataTask) -> None:
        """Run one task."""
        if self._is_store_silent:
            message.done(ClientClosedError())
            return
        try:
            outcome = message.run()
        except ZbkError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - a foreign error must not end the actor
            outcome = MetadataUnavailableError("metadata store", f"{type(error).__name__}: {error}")
        if self._is_ending.is_set() and isinstance(outcome, MetadataUnavailableError):
            self._is_store_silent = True
        message.done(outcome)


class MetadataActors:
    """The metadata actors of a client, each started when it is first needed.

    The tasks of one ledger run in order, those of different ledgers at the same time.
    """

    def __init__(self, count: int = ACTOR_COUNT) -> None:
        self._refs: list[pykka.ActorRef[MetadataActor] | None] = [None] * count
        self._lock = threading.Lock()
        self._is_ending = threading.Event()

    def tell(self, ledger_id: int, task: MetadataTask) -> None:
        """Queue a task of a ledger.

        Raises:
            pykka.ActorDeadError: the client was closed.
        """
        number = ledger_id % len(self._refs)
        with self._lock:
            if self._is_ending.is_set():
                raise pykka.ActorDeadError("the client was closed")
            ref = self._refs[number]
            if ref is None:
                ref = self._refs[number] = MetadataActor.start(self._is_ending)
        ref.tell(task)

    def stop(self) -> None:
        """Stop the actors, each after its queued tasks, or after the first without an answer."""
        with self._lock:
            self._is_ending.set()
            refs = [ref for ref in self._refs if ref is not None]
        for ref in refs:
            ref.stop()
