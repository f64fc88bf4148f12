"""Waiting in the steps of an upkeep actor: for time, for the storage actor, for a checkpoint.

A step that waits yields false, and the actor handles its next message. ``Answered`` and
``CheckpointEnded`` take the step after it. A message that comes late, such as a second call of the
ticker, is dropped; but a checkpoint that ends late has ended.

The actor makes and owns its ``Waits``. The ticker's callbacks run in the ticker's thread.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import pykka

from zbk.actors.messages import (
    Answered,
    AskCheckpoint,
    AskStorage,
    CheckpointEnded,
    ForgetLedgers,
    Sink,
    StorageQuestion,
    TickSource,
)
from zbk.errors import ZbkError

T = TypeVar("T")


class WaitPorts(msgspec.Struct, frozen=True):
    """Where the questions of an upkeep actor go, and its clock."""

    storage_actor: Sink[AskStorage | ForgetLedgers]
    checkpoints: Sink[AskCheckpoint]
    ticker: TickSource
    now_ms: Callable[[], int]


class Waits:
    """The waiting of one actor, whose ref is ``own``; one wait at a time."""

    def __init__(self, own: Sink[Answered | CheckpointEnded], ports: WaitPorts) -> None:
        self._own = own
        self._ports = ports
        self._wait_no = 0
        self._value: object = None  # that the last step waited for
        self._checkpoint_no = -1  # the wait of the last checkpoint that has ended

    def now_ms(self) -> int:
        """Return the time."""
        return self._ports.now_ms()

    def take(self, message: Answered | CheckpointEnded) -> bool:
        """Return whether the step that waits now waits for this message and may continue."""
        if isinstance(message, CheckpointEnded):
            self._checkpoint_no = max(self._checkpoint_no, message.wait_no)
            message = Answered(message.wait_no)
        if message.wait_no != self._wait_no:
            return False
        self._wait_no += 1
        self._value = message.value
        return True

    def until(self, until_ms: int) -> Iterator[bool]:
        """Wait until a time."""
        timeout_ms = until_ms - self.now_ms()
        if timeout_ms > 0:
            yield from self._time_out(timeout_ms)

    def checkpoint(self, timeout_ms: int) -> Generator[bool, None, int]:
        """Ask for a checkpoint; wait for its end, or until the time is over. Return its number."""
        wait_no = self._wait_no
        asked = AskCheckpoint(self._own, wait_no)
        yield from self._time_out(timeout_ms, asked)
        return wait_no

    def has_ended(self, checkpoint_no: int) -> bool:
        """Return whether a checkpoint that was asked for has ended."""
        return checkpoint_no <= self._checkpoint_no

    def run_in_storage(self, question: StorageQuestion[object]) -> None:
        """Ask the storage actor a question without waiting for the answer."""
        self._tell_storage(AskStorage(question))

    def in_storage(self, question: StorageQuestion[T]) -> Generator[bool, None, T]:
        """Ask the storage actor a question; return its answer.

        Raises:
            CorruptRecordError, OutOfDescriptorsError: as the question did.
        """
        answer: T = yield from self._answer_to(AskStorage(question, self._own, self._wait_no))
        return answer

    def forget_ledgers(self, ledger_ids: Sequence[int]) -> Generator[bool, None, bool]:
        """Forget ledgers in the storage actor; return whether storage could remember them."""
        question = ForgetLedgers(ledger_ids, self._own, self._wait_no)
        return bool((yield from self._answer_to(question)))

    def _answer_to(self, question: AskStorage | ForgetLedgers) -> Generator[bool, None, Any]:
        self._tell_storage(question)
        yield False
        if isinstance(self._value, ZbkError):
            raise self._value
        return self._value

    def _tell_storage(self, message: AskStorage | ForgetLedgers) -> None:
        with suppress(pykka.ActorDeadError):  # the bookie stops
            self._ports.storage_actor.tell(message)

    def _time_out(self, timeout_ms: int, asked: AskCheckpoint | None = None) -> Iterator[bool]:
        """Wait for an answer, or until the time is over."""
        timed_out = Answered(self._wait_no)

        def wake() -> None:
            with suppress(pykka.ActorDeadError):
                self._own.tell(timed_out)

        self._ports.ticker.every(timeout_ms, wake)
        if asked is not None:
            with suppress(pykka.ActorDeadError):
                self._ports.checkpoints.tell(asked)
        try:
            yield False
        finally:
            self._ports.ticker.cancel(wake)
