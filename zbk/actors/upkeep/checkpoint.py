"""The checkpoint actor: moves the journal's mark forward, so that old segments can go.

mailbox     CheckpointDue, from the ticker; CheckpointAsked, from compaction and the scrub actor;
            Begun and Ended, from the storage actor
answers     nobody
owns        the checkpoint that is under way, one at a time
on failure  the bookie stops

A checkpoint begins and ends in the storage actor's thread, where it takes a picture of what is
dirty; the waiting for the disk in between is done here, and adds go on meanwhile. Order (storage
keeps it): entry logs, index, mark, old journal segments.

On a full disk a checkpoint stays under way and is tried again each ``RETRY_MS``: the mark has not
moved, so that the journal still has everything.

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
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.checkpoint import Checkpoint
from zbk.system.clock import monotonic_ms

RETRY_MS: Final = 1_000

PAUSE_FACTOR: Final = 15
PAUSE_MAX_MS: Final = 60_000
"""A checkpoint that took long (of 20,000 ledgers, each a file to sync) is not begun again for the
sake of time alone before so many times as long have passed, up to this: adds need the machine, too.
Memory still begins one at once, and so do journal bytes, but for one of many ledgers."""

MANY_LEDGER_COUNT: Final = 1_000
JOURNAL_FACTOR: Final = 6
"""A checkpoint of many ledgers costs by their number, not by what was written: after one, so many
times the journal bytes may be written before the next one is begun. A start after a crash takes
some ten seconds for each GiB of 20,000 ledgers, so that it stays below 20."""


class CheckpointDue(msgspec.Struct, frozen=True):
    """Look whether a checkpoint is due."""


class CheckpointAsked(msgspec.Struct, frozen=True):
    """Begin a checkpoint, whatever was written; call ``done`` when one begun from now on ends."""

    done: Callable[[], None]


class Begun(msgspec.Struct, frozen=True):
    """The storage actor has begun a checkpoint."""

    checkpoint: Checkpoint


class Ended(msgspec.Struct, frozen=True):
    """The storage actor has ended it."""


class Postponed(msgspec.Struct, frozen=True):
    """The storage actor has found no space to begin one."""


CheckpointMessage: TypeAlias = CheckpointDue | CheckpointAsked | Begun | Ended | Postponed


class CheckpointActor(BookieActor):
    """Begins a checkpoint when time or journal bytes say so."""

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
        self._interval_ms = interval_ms
        self._journal_size = journal_size
        self._waiting = storage.open_checkpoint  # since the start: for space, or for time
        self.is_running = self._waiting is not None  # begun, or about to, and not ended
        self._retry_ms = 0
        self._asked: list[Callable[[], None]] = []  # of the checkpoint that begins next
        self._awaited: list[Callable[[], None]] = []  # of the one under way
        self._last_ms = self._now_ms()
        self._run_ms = self._last_ms  # when the steps of the last one were begun
        self._took_ms = 0  # from there to its end
        self._ledger_count = 0  # that it brought to the disk
        self._last_write_size = 0
        self.checkpoint_count = 0

    def handle(self, message: CheckpointMessage) -> None:
        """Begin, carry out, or end a checkpoint."""
        match message:
            case CheckpointDue():
                if self._waiting is not None and self._now_ms() >= self._retry_ms:
                    self._run(self._waiting)
                elif not self.is_running and (self._is_due() or self._asked):
                    self._ask_storage()
            case CheckpointAsked(done):
                self._asked.append(done)
                if not self.is_running:
                    self._ask_storage()
            case Begun():
                self._run(message.checkpoint)
            case Ended():
                self.is_running = False
                self._took_ms = self._now_ms() - self._run_ms
                self.checkpoint_count += 1
                awaited, self._awaited = self._awaited, []
                for done in awaited:
                    done()
            case Postponed():
                self.is_running = False
                self._asked, self._awaited = [*self._awaited, *self._asked], []
                self._last_write_size = -1  # however little has been written
            case _:
                assert_never(message)

    def _ask_storage(self) -> None:
        self.is_running = True
        self._asked, self._awaited = [], self._asked
        self._storage_actor.tell(RunInStorage(self._begin))

    def _run(self, checkpoint: Checkpoint) -> None:
        self._waiting = None
        self._run_ms = self._now_ms()
        self._ledger_count = checkpoint.ledger_count
        try:
            checkpoint.run()
        except NoSpaceError:
            self._waiting = checkpoint
            self._retry_ms = self._now_ms() + RETRY_MS
        else:
            self._storage_actor.tell(RunInStorage(lambda: self._end(checkpoint)))

    def _is_due(self) -> bool:
        written = self._storage.journals.write_size
        if written == self._last_write_size:
            return False  # nothing has happened since the last one
        pause_ms = min(PAUSE_FACTOR * self._took_ms, PAUSE_MAX_MS)
        since_ms = self._now_ms() - self._last_ms
        is_late = since_ms >= max(self._interval_ms, pause_ms)
        has_many = self._ledger_count >= MANY_LEDGER_COUNT
        journal_size = self._journal_size * (JOURNAL_FACTOR if has_many else 1)
        is_much = written - self._last_write_size >= journal_size
        if not (is_late or is_much or self._storage.is_checkpoint_due):
            return False
        self._last_ms = self._now_ms()
        self._last_write_size = written
        return True

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
