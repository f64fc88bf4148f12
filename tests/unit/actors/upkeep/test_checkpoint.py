"""When the checkpoint actor begins a checkpoint: for time, for bytes, and not too often."""

from typing import Any

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, storage_on
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.messages import Answered, AskStorage, EndCheckpoint
from zbk.actors.upkeep.checkpoint import CheckpointActor, CheckpointDue
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.upkeep.checkpoint import JOURNAL_FACTOR, MANY_LEDGER_COUNT, PAUSE_FACTOR
from zbk.storage.journal.record import EntriesRecord
from zbk.storage.replay import add_batches

INTERVAL_MS = 1_000


class DirectCheckpointActor(CheckpointActor):
    """Takes at once what it tells itself."""

    actor_ref: Any = None


class World:
    """An actor that is not started: messages are handed over by the test, which has the clock."""

    def __init__(self, *, journal_size: int = 1 << 30) -> None:
        self.now_ms = 0
        self.storage = storage_on(SimulatedDisk())
        self.storage.open()
        self.storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)
        self.steps: list[AskStorage | EndCheckpoint] = []
        world = self

        class Ref:
            def tell(self, message: object) -> None:
                world.actor.on_receive(message)

        class Storage:
            def tell(self, message: AskStorage | EndCheckpoint) -> None:
                world.steps.append(message)

        self.actor = DirectCheckpointActor(
            self.storage,
            Storage(),
            interval_ms=INTERVAL_MS,
            journal_size=journal_size,
            stop_bookie=lambda _error: None,
            now_ms=lambda: self.now_ms,
        )
        self.actor.actor_ref = Ref()
        self.next_id = 0

    def add(self) -> None:
        batch = batch_of(1, range(self.next_id, self.next_id + 3))
        self.next_id += 3
        add_batches(self.storage.homes, [batch])
        self.storage.journal.append([EntriesRecord(batch)])

    def is_begun(self) -> bool:
        """Look whether a checkpoint begins now."""
        before = len(self.steps)
        self.actor.handle(CheckpointDue())
        return len(self.steps) > before

    def run(self, took_ms: int) -> None:
        """Take the steps of the checkpoint that began."""
        self.answer_next()
        self.now_ms += took_ms
        self.answer_next()

    def answer_next(self) -> None:
        """Be the storage actor."""
        match self.steps.pop(0):
            case AskStorage(question):
                self.actor.handle(Answered(0, question.answer()))
            case EndCheckpoint(checkpoint):
                self.storage.end_checkpoint(checkpoint)
                self.actor.handle(Answered(0))


def test_one_begins_after_the_interval_if_anything_was_written() -> None:
    world = World()
    world.add()
    assert not world.is_begun()
    world.now_ms += INTERVAL_MS

    assert world.is_begun()
    assert world.actor.is_running

    world.run(took_ms=1)
    assert not world.actor.is_running
    world.now_ms += INTERVAL_MS
    assert not world.is_begun()
    world.add()
    assert world.is_begun()


def test_a_bookie_with_nothing_to_write_is_not_late_with_a_checkpoint() -> None:
    """The age of the last one raises an alert, whose runbook speaks of a full or hanging disk."""
    world = World()
    for _ in range(3):
        world.now_ms += INTERVAL_MS
        assert not world.is_begun()
        assert world.actor.ended_ms == world.now_ms

    world.add()
    written_ms = world.now_ms
    assert world.is_begun()
    world.now_ms += 5
    assert not world.is_begun(), "one is under way"
    assert world.actor.ended_ms == written_ms
    world.run(took_ms=1)
    world.add()
    world.now_ms = written_ms + INTERVAL_MS - 1
    assert not world.is_begun()
    assert world.actor.ended_ms == written_ms + 6, "something was written since"


def test_after_one_that_took_long_time_alone_waits_longer() -> None:
    world = World()
    world.add()
    world.now_ms += INTERVAL_MS
    assert world.is_begun()
    begun_ms = world.now_ms
    world.run(took_ms=3 * INTERVAL_MS)
    world.add()

    world.now_ms = begun_ms + 3 * INTERVAL_MS * PAUSE_FACTOR - 1
    assert not world.is_begun()
    world.now_ms += 1
    assert world.is_begun()


def test_after_one_of_many_ledgers_so_much_more_may_be_written() -> None:
    world = World(journal_size=400)
    for ledger_id in range(1, MANY_LEDGER_COUNT + 1):
        world.storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
    world.add()
    world.now_ms += INTERVAL_MS
    assert world.is_begun()
    world.run(took_ms=INTERVAL_MS // 100)
    before_size = world.storage.journals.write_size
    while world.storage.journals.write_size - before_size < JOURNAL_FACTOR * 400:
        assert not world.is_begun()
        world.add()
    assert world.is_begun(), "the journal is not to grow for ever"

    world.run(took_ms=INTERVAL_MS // 100)
    for _ in range(4):
        world.add()
    assert world.is_begun(), "that was of one ledger"


def test_journal_bytes_do_not_wait() -> None:
    world = World(journal_size=400)
    world.add()
    world.now_ms += INTERVAL_MS
    assert world.is_begun()
    world.run(took_ms=3 * INTERVAL_MS)

    for _ in range(4):
        world.add()

    assert world.is_begun()
