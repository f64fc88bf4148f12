"""The checkpoint actor: moves the journal's mark forward, so that old segments can go.

mailbox     CheckpointDue, from the ticker; CheckpointAsked, from compaction and the scrub actor;
            Begun, Ended and Postponed, from the storage actor's thread
answers     ``done`` of each CheckpointAsked
owns        the checkpoint that is under way, one at a time
on failure  the bookie stops

``zbk.protocol.upkeep.checkpoint`` decides when a checkpoint is due. It begins and ends in the
storage actor's thread, which takes a picture of what is dirty. The steps in between wait for the
disk here, and adds go on meanwhile. Storage keeps the order: entry logs, index, mark, old journal
segments.

On a full disk a checkpoint stays under way and is retried each ``RETRY_MS``: the mark has not
moved, so the journal still has everything.

Source: BookKeeper's ``SyncThread``; the seed, section Data flush.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias, assert_never

import msgspec
import pykka

from zbk.actors.base import BookieActor, StopBookie
from zbk.actors.messages import RunInStorage, Sink
from zbk.errors import NoSpaceError
from zbk.protocol.upkeep.checkpoint import CheckpointSchedule
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.checkpoint import Checkpoint
from zbk.system.clock import monotonic_ms

RETRY_MS: Final = 1_000


class CheckpointDue(msgspec.Struct, frozen=True):
    """Check whether a checkpoint is due."""


class CheckpointAsked(msgspec.Struct, frozen=True):
    """Begin a checkpoint, due or not; call ``done`` when one that begins from now on ends."""

    done: Callable[[], None]


class Begun(msgspec.Struct, frozen=True):
    """The storage actor has begun a checkpoint."""

    checkpoint: Checkpoint


class Ended(msgspec.Struct, frozen=True):
    """The storage actor has ended the checkpoint."""


class Postponed(msgspec.Struct, frozen=True):
    """The storage actor has found no space to begin a checkpoint."""


CheckpointMessage: TypeAlias = CheckpointDue | CheckpointAsked | Begun | Ended | Postponed


class CheckpointActor(BookieActor):
    """Runs checkpoints, those that are due and those that are asked for."""

    def __init__(
        self,
        storage: BookieStorage,
        storage_actor: Sink[RunInStorage],
        *,
        interval_ms: int,
        journal_size: int,
        stop_bookie: StopBookie,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(stop_bookie)
        self._storage = storage
        self._storage_actor = storage_actor
        self._now_ms = now_ms
        self._schedule = CheckpointSchedule(
            interval_ms=interval_ms, journal_size=journal_size, now_ms=now_ms()
        )
        self._waiting = storage.open_checkpoint  # since the start: for space, or for time
        self.is_running = self._waiting is not None  # begun, or about to, and not ended
        self._retry_ms = 0
        self._asked: list[Callable[[], None]] = []  # callbacks of the checkpoint that begins next
        self._awaited: list[Callable[[], None]] = []  # callbacks of the one under way
        self.checkpoint_count = 0

    def handle(self, message: CheckpointMessage) -> None:
        """Begin, run, or end a checkpoint."""
        match message:
            case CheckpointDue():
                if self._waiting is not None and self._now_ms() >= self._retry_ms:
                    self._run(self._waiting)
                elif not self.is_running and (self._take_due() or self._asked):
                    self._ask_storage()
            case CheckpointAsked(done):
                self._asked.append(done)
                if not self.is_running:
                    self._ask_storage()
            case Begun():
                self._run(message.checkpoint)
            case Ended():
                self.is_running = False
                self._schedule.ended(self._now_ms())
                self.checkpoint_count += 1
                awaited, self._awaited = self._awaited, []
                for done in awaited:
                    done()
            case Postponed():
                self.is_running = False
                self._asked, self._awaited = [*self._awaited, *self._asked], []
                self._schedule.postponed()
            case _:
                assert_never(message)

    def _take_due(self) -> bool:
        return self._schedule.take_due(
            self._now_ms(),
            self._storage.journals.write_size,
            is_memory_short=self._storage.is_checkpoint_due,
        )

    def _ask_storage(self) -> None:
        self.is_running = True
        self._asked, self._awaited = [], self._asked
        self._storage_actor.tell(RunInStorage(self._begin))

    def _run(self, checkpoint: Checkpoint) -> None:
        self._waiting = None
        self._schedule.run(self._now_ms(), checkpoint.ledger_count)
        try:
            checkpoint.run()
        except NoSpaceError:
            self._waiting = checkpoint
            self._retry_ms = self._now_ms() + RETRY_MS
        else:
            self._storage_actor.tell(RunInStorage(lambda: self._end(checkpoint)))

    # ------------------------------------------------------------------ storage actor's thread

    def _begin(self) -> None:
        try:
            checkpoint = self._storage.begin_checkpoint()
        except NoSpaceError:
            self._tell_self(Postponed())
        else:
            self._tell_self(Begun(checkpoint))

    def _end(self, checkpoint: Checkpoint) -> None:
        self._storage.end_checkpoint(checkpoint)
        self._tell_self(Ended())

    def _tell_self(self, message: CheckpointMessage) -> None:
        with suppress(pykka.ActorDeadError):  # the bookie stops: see ``last_checkpoint``
            self.actor_ref.tell(message)
