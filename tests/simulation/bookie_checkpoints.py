"""The checkpoints of a simulated bookie: their steps, with simulated time between them."""

from collections.abc import Callable
from typing import Protocol, cast

from tests.simulation.bookie_parts import Tell
from tests.simulation.kernel import MS, Kernel
from zbk.actors.messages import Answered, AskStorage, EndCheckpoint
from zbk.actors.serve.storage import StorageMessage
from zbk.errors import NoSpaceError
from zbk.storage.bookie_storage import BeginCheckpoint, BookieStorage
from zbk.storage.checkpoint import Checkpoint


class CheckpointedBookie(Protocol):
    """What checkpoints need of their bookie."""

    kernel: Kernel

    def later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something later, in this life."""
        ...

    def tell_storage_actor(self, message: StorageMessage) -> None:
        """Give the storage actor a message to handle."""
        ...


class BookieCheckpoints:
    """The checkpoints of one life of a bookie, one after the other."""

    def __init__(self, bookie: CheckpointedBookie, storage: BookieStorage) -> None:
        self._bookie = bookie
        self._storage = storage
        self._current: Checkpoint | None = None
        self._asked: list[Callable[[], None]] = []

    def begin_soon(self) -> None:
        """Begin the next one some time from now."""
        self._bookie.later((5 + self._bookie.kernel.tape.draw(20)) * 20 * MS, self._begin)

    def ask(self, done: Callable[[], None]) -> None:
        """Call ``done`` when a checkpoint has ended that begins from now on."""
        self._asked.append(done)

    def _begin(self) -> None:
        bookie = self._bookie
        for journal in self._storage.journals:
            journal.prepare_next()
        waiting, self._asked = self._asked, []
        bookie.tell_storage_actor(AskStorage(BeginCheckpoint(self._storage), Tell(self._begun)))
        checkpoint = self._current
        assert checkpoint is not None, "it was begun"
        steps: list[Callable[[], None]] = [
            *checkpoint.steps,
            lambda: bookie.tell_storage_actor(EndCheckpoint(checkpoint)),
            *waiting,
        ]
        self._take_steps(steps)

    def _begun(self, answer: Answered) -> None:
        if isinstance(answer.value, NoSpaceError):
            raise answer.value
        self._current = cast("Checkpoint", answer.value)

    def _take_steps(self, steps: list[Callable[[], None]]) -> None:
        if not steps:
            self.begin_soon()
            return
        steps.pop(0)()
        self._bookie.later(100 + self._bookie.kernel.tape.draw(4) * MS, self._take_steps, steps)
