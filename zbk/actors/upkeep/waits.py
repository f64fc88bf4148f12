"""How the steps of an upkeep actor wait, for time or for the storage actor, without blocking it.

A step that waits yields false, and the actor handles its next message. ``Resume`` takes the step
after it. A ``Resume`` that comes late, such as a second call of the ticker, is dropped.

The actor makes and owns its ``Waits``; the callbacks that it hands out may be called in any thread.
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
    """A step can go on: this is the value that it waited for."""

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
        self.value = 0  # that the last step waited for

    def take(self, message: Resume) -> bool:
        """Return whether the step that waits now waits for this message; if so, it goes on."""
        if message.wait_no != self._wait_no:
            return False
        self._wait_no += 1
        self.value = message.value
        return True

    def resume_later(self) -> Callable[[int], None]:
        """Return a callback that resumes the step that waits next. Its first call counts."""
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
        """Wait until the callback that ``ask`` gets is called, or until the time is over."""
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

    def run_in_storage(self, step: Callable[[], None]) -> None:
        """Run a short step in the storage actor's thread, and do not wait for it."""
        with suppress(pykka.ActorDeadError):  # the bookie stops
            self._storage_actor.tell(RunInStorage(step))

    def in_storage(self, step: Callable[[], T]) -> Generator[bool, None, T]:
        """Run a short step in the storage actor's thread, and return its result.

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

        self.run_in_storage(run)
        yield False
        (outcome,) = outcomes
        if isinstance(outcome, CorruptRecordError | OutOfDescriptorsError):
            raise outcome
        return outcome
