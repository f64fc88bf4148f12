"""The checkpoint actor: moves the journal's mark forward, so that old segments can be removed.

mailbox     CheckpointDue, from the ticker; AskCheckpoint, from the gc and scrub actors; Answered,
            from the storage actor; OptionsChanged
answers     CheckpointEnded to each AskCheckpoint
owns        the checkpoint under way, one at a time
on failure  the bookie stops

``zbk.protocol.upkeep.checkpoint`` decides when a checkpoint is due. It begins and ends in the
storage actor's thread, which takes a snapshot of the changed index. The steps in between wait for
the disk in this actor's thread, and adds continue meanwhile. Storage keeps the order: entry logs,
index, mark, old journal segments.

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
from zbk.actors.messages import (
    Answered,
    AskCheckpoint,
    AskStorage,
    CheckpointEnded,
    EndCheckpoint,
    OptionsChanged,
    Sink,
)
from zbk.errors import NoSpaceError
from zbk.metrics.buckets import Buckets
from zbk.protocol.upkeep.checkpoint import CheckpointSchedule
from zbk.storage.bookie_storage import BeginCheckpoint, BookieStorage
from zbk.storage.checkpoint import Checkpoint
from zbk.system.clock import monotonic_ms

RETRY_MS: Final = 1_000


class CheckpointDue(msgspec.Struct, frozen=True):
    """Check whether a checkpoint is due."""


CheckpointMessage: TypeAlias = CheckpointDue | AskCheckpoint | Answered | OptionsChanged


class CheckpointActor(BookieActor):
    """Runs checkpoints, those that are due and those that are asked for."""

    def __init__(
        self,
        storage: BookieStorage,
        storage_actor: Sink[AskStorage | EndCheckpoint],
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
        self._waiting = storage.open_checkpoint  # for space, or from the start of the bookie
        self.is_running = self._waiting is not None  # asked for, and not ended
        self._retry_ms = 0
        self._asked: list[AskCheckpoint] = []  # for the checkpoint that begins next
        self._awaited: list[AskCheckpoint] = []  # for the one under way
        self.checkpoint_count = 0
        self.times = Buckets()
        self.ended_ms = now_ms()  # of the last one, or when it would have had nothing to write
        self._begun_ms = now_ms()

    def handle(self, message: CheckpointMessage) -> None:
        """Begin, run, or end a checkpoint."""
        match message:
            case CheckpointDue():
                self._look()
            case AskCheckpoint():
                self._asked.append(message)
                if not self.is_running:
                    self._ask_storage()
            case OptionsChanged(config):
                self._schedule.change(
                    interval_ms=config.checkpoint_interval_ms,
                    journal_size=config.checkpoint_journal_size,
                )
            case Answered(value=Checkpoint() as checkpoint):
                self._run(checkpoint)
            case Answered(value=NoSpaceError()):
                self.is_running = False
                self._asked, self._awaited = [*self._awaited, *self._asked], []
                self._schedule.postponed()
            case Answered():
                self._end()
            case _:
                assert_never(message)

    def _look(self) -> None:
        """Retry or begin a checkpoint, if one is due."""
        if self._waiting is not None and self._now_ms() >= self._retry_ms:
            self._run(self._waiting)
        elif not self.is_running and (self._take_due() or self._asked):
            self._ask_storage()
        elif not self.is_running and self._schedule.covers(self._write_size):
            self.ended_ms = self._now_ms()

    def _take_due(self) -> bool:
        return self._schedule.take_due(
            self._now_ms(), self._write_size, is_memory_short=self._storage.is_checkpoint_due
        )

    @property
    def _write_size(self) -> int:
        return self._storage.journals.write_size + self._storage.unjournaled_size

    def _ask_storage(self) -> None:
        self.is_running = True
        self._begun_ms = self._now_ms()
        self._asked, self._awaited = [], self._asked
        self._storage_actor.tell(AskStorage(BeginCheckpoint(self._storage), self.actor_ref))

    def _run(self, checkpoint: Checkpoint) -> None:
        self._waiting = None
        self._schedule.run(self._now_ms(), checkpoint.ledger_count)
        try:
            checkpoint.run()
        except NoSpaceError:
            self._waiting = checkpoint
            self._retry_ms = self._now_ms() + RETRY_MS
        else:
            self._storage_actor.tell(EndCheckpoint(checkpoint, self.actor_ref))

    def _end(self) -> None:
        self.is_running = False
        self.ended_ms = self._now_ms()
        self.times.observe(1_000 * (self.ended_ms - self._begun_ms))
        self._schedule.ended(self.ended_ms)
        self.checkpoint_count += 1
        awaited, self._awaited = self._awaited, []
        for one in awaited:
            with suppress(pykka.ActorDeadError):  # the bookie stops
                one.reply_to.tell(CheckpointEnded(one.wait_no))
