"""How a step of garbage collection waits, without its thread being held up: for time, for others.

A step that has to wait yields false, and the actor goes on to its next message; ``Resume`` takes
the step after it. What comes late, a second call of the ticker, is not for anybody any more.

Made, and owned, by the gc actor; what it hands out may be called in any thread.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec
import pykka

from zbk.actors.messages import RunInStorage, Sink, TickSource
from zbk.errors import CorruptRecordError, OutOfDescriptorsError

T = TypeVar("T")


class Resume(msgspec.Struct, frozen=True):
    """What a step waited for has come."""

    wait_no: int
    value: int


class Waits:
    """The waiting of one actor; one wait at a time."""

    def __init__(
        self,
        resume: Callable[[Resume], None],
        storage_actor: Sink[RunInStorage],
        ticker: TickSource,
        now_ms: Callable[[], int],
    ) -> None:
        self._resume = resume
        self._storage_actor = storage_actor
        self._ticker = ticker
        self.now_ms = now_ms
        self._wait_no = 0
        self.value = 0  # what a step waited for

    def take(self, message: Resume) -> bool:
        """Return whether a step waits for this, and no longer."""
        if message.wait_no != self._wait_no:
            return False
        self._wait_no += 1
        self.value = message.value
        return True

    def resume_later(self) -> Callable[[int], None]:
        """Return what takes the step after this one, whoever calls it, once."""
        wait_no = self._wait_no

        def resume(value: int) -> None:
            with suppress(pykka.ActorDeadError):
                self._resume(Resume(wait_no, value))

        return resume

    def until(self, until_ms: int) -> Iterator[bool]:
        """Wait until a time."""
        yield from self.until_told(until_ms - self.now_ms(), lambda _wake: None)

    def until_told(
        self, timeout_ms: int, ask: Callable[[Callable[[int], None]], None]
    ) -> Iterator[bool]:
        """Wait until what ``ask`` is given is called, but no longer than a time."""
        if timeout_ms <= 0:
            return
        wake = self.resume_later()
        callback = lambda: wake(0)  # noqa: E731 - the ticker cancels by identity
        self._ticker.every(timeout_ms, callback)
        ask(wake)
        try:
            yield False
        finally:
            self._ticker.cancel(callback)

    def in_storage(self, step: Callable[[], T]) -> Generator[bool, None, T]:
        """Do a short step in the storage actor's thread; return what it returned.

        Raises:
            CorruptRecordError, OutOfDescriptorsError: as the step did.
        """
        outcomes: list[T | CorruptRecordError | OutOfDescriptorsError] = []
        wake = self.resume_later()

        def run() -> None:
            try:
                outcomes.append(step())
            except (CorruptRecordError, OutOfDescriptorsError) as error:
                outcomes.append(error)
            wake(0)

        with suppress(pykka.ActorDeadError):  # then the bookie stops: nothing more to do
            self._storage_actor.tell(RunInStorage(run))
        yield False
        (outcome,) = outcomes
        if isinstance(outcome, CorruptRecordError | OutOfDescriptorsError):
            raise outcome
        return outcome
