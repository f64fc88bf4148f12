"""The checkpoint actor: moves the journal's mark forward, so that old segments can go.

mailbox     CheckpointDue, from the ticker; Begun and Ended, from the storage actor
answers     nobody
owns        the checkpoint that is under way, one at a time
on failure  the bookie stops

A checkpoint begins and ends in the storage actor's thread, where it takes a picture of what is
dirty; the waiting for the disk in between is done here, and adds go on meanwhile. Order (storage
keeps it): entry logs, index, mark, old journal segments.

Source: BookKeeper's ``SyncThread``; the seed, section Data flush.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, assert_never

import msgspec

from zbk.actors.base import BookieActor, StopBookie
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.checkpoint import Checkpoint
from zbk.system.clock import monotonic_ms


class RunInStorage(msgspec.Struct, frozen=True):
    """Do a step in the storage actor's thread."""

    step: Callable[[], None]


class CheckpointDue(msgspec.Struct, frozen=True):
    """Look whether a checkpoint is due."""


class Begun(msgspec.Struct, frozen=True):
    """The storage actor has begun a checkpoint."""

    checkpoint: Checkpoint


class Ended(msgspec.Struct, frozen=True):
    """The storage actor has ended it."""


CheckpointMessage: TypeAlias = CheckpointDue | Begun | Ended


class StepSink(Protocol):
    """Where steps go: the storage actor's ref."""

    def tell(self, message: RunInStorage) -> None:
        """Deliver without waiting."""
        ...


class CheckpointActor(BookieActor):
    """Begins a checkpoint when time or journal bytes say so."""

    def __init__(
        self,
        storage: BookieStorage,
        storage_actor: StepSink,
        *,
        interval_ms: int,
        journal_size: int,
        stop_bookie: StopBookie,
    ) -> None:
        super().__init__(stop_bookie)
        self._storage = storage
        self._storage_actor = storage_actor
        self._interval_ms = interval_ms
        self._journal_size = journal_size
        self._is_running = False
        self._last_ms = monotonic_ms()
        self._last_write_size = 0
        self.checkpoint_count = 0

    def handle(self, message: CheckpointMessage) -> None:
        """Begin, carry out, or end a checkpoint."""
        match message:
            case CheckpointDue():
                self._storage.journal.prepare_next()
                if not self._is_running and self._is_due():
                    self._is_running = True
                    self._storage_actor.tell(RunInStorage(self._begin))
            case Begun():
                message.checkpoint.run()
                self._storage_actor.tell(RunInStorage(lambda: self._end(message.checkpoint)))
            case Ended():
                self._is_running = False
                self.checkpoint_count += 1
            case _:
                assert_never(message)

    def _is_due(self) -> bool:
        written = self._storage.journal.write_size
        if written == self._last_write_size:
            return False  # nothing has happened since the last one
        is_late = monotonic_ms() - self._last_ms >= self._interval_ms
        is_much = written - self._last_write_size >= self._journal_size
        if not (is_late or is_much or self._storage.is_checkpoint_due):
            return False
        self._last_ms = monotonic_ms()
        self._last_write_size = written
        return True

    # ------------------------------------------------------------------ storage actor's thread

    def _begin(self) -> None:
        self.actor_ref.tell(Begun(self._storage.begin_checkpoint()))

    def _end(self, checkpoint: Checkpoint) -> None:
        self._storage.end_checkpoint(checkpoint)
        self.actor_ref.tell(Ended())
