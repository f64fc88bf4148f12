"""A garbage collection actor without its thread, beside a storage actor and a store that lies."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.fake_actors import FakeTicker
from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, batch
from zbk.actors.messages import AskCheckpoint, CheckpointEnded
from zbk.actors.upkeep.compaction_rounds import CompactionOptions
from zbk.actors.upkeep.gc import GcActor, GcDue, GcOptions
from zbk.actors.upkeep.waits import WaitPorts
from zbk.metadata.paths import LEDGERS
from zbk.metadata.records.instance import initialise, instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import Node
from zbk.protocol.upkeep.compaction import CompactionLimits
from zbk.protocol.upkeep.gc import RoundResult

PAYLOAD_SIZE = 500
ENTRY_COUNT = 8
CONFIRM_DELAY_MS = 1_000


def no_hook(path: str) -> None:
    """Do nothing before a question about a path."""


class LyingStore(MemoryStore):
    """A session whose answers a test may change. ``before`` sees each path that is asked for."""

    before: Callable[[str], None] = staticmethod(no_hook)
    names: Callable[[list[str]], list[str]] = staticmethod(lambda names: names)

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        self.before(path)
        return super().get(path, is_fresh=is_fresh)

    def children(self, path: str) -> list[str]:
        self.before(path)
        return self.names(super().children(path))


class GarbageWorld:
    """A bookie, its metadata store, and the ledgers of a cluster."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.disk = disk or SimulatedDisk()
        self.limits = CompactionLimits()
        self.rate_size = 0
        self.room_size = 1 << 40
        self.waiting_for_checkpoint: list[AskCheckpoint] = []
        self.tree = MemoryTree("gc")
        self.client = self.tree.open_session()
        initialise(self.client)
        self.ledgers = LedgerStore(self.client)
        self.store = LyingStore(self.tree)
        self.start()

    def start(self) -> None:
        """Start the bookie, on what is on the disk."""
        self.bookie = World(self.disk, "/b", log_size_max=4_000)
        self.ticker = FakeTicker()
        self.now_ms = 0
        self.failures: list[BaseException] = []
        compaction = CompactionOptions(self.limits, self.rate_size, lambda _path: self.room_size)
        self.to_storage: list[Any] = []
        self.gc = GcActor(
            self.bookie.storage.garbages,
            self.store,
            GcOptions(instance_id(self.client), CONFIRM_DELAY_MS, compaction),
            WaitPorts(
                Box(self.to_storage),
                Box(self.waiting_for_checkpoint),
                self.ticker,
                lambda: self.now_ms,
            ),
            self.failures.append,
        )

    def close(self) -> None:
        """End the sessions."""
        self.gc.on_stop()
        self.store.close()
        self.client.close()

    def create(self, count: int = 1) -> list[int]:
        """Make ledgers and write to them: a log each."""
        ids = [self.ledgers.create(metadata_maker())[0].ledger_id for _ in range(count)]
        for ledger_id in ids:
            self.write(ledger_id)
        return ids

    def write(self, ledger_id: int, first: int = 0) -> None:
        """Add entries."""
        payloads = [b"x" * PAYLOAD_SIZE] * ENTRY_COUNT
        self.bookie.say(*add(batch(first, payloads, ledger_id=ledger_id)))
        self.bookie.settle()

    def delete(self, *ledger_ids: int) -> None:
        """Delete ledgers from the metadata."""
        for ledger_id in ledger_ids:
            self.ledgers.delete(ledger_id)

    def begin_round(self) -> None:
        """Begin a round."""
        self.bookie.checkpoint()
        self.gc.on_receive(GcDue())

    def go_on(self) -> bool:
        """Take one step; false if there is nothing to do but to wait."""
        if self.to_storage:
            self.bookie.tell(self.to_storage.pop(0))
        elif not self.gc.actor_inbox.empty():
            self.gc.on_receive(self.gc.actor_inbox.get().message)
        elif self.waiting_for_checkpoint:
            asked = self.waiting_for_checkpoint.pop(0)
            self.bookie.checkpoint()
            asked.reply_to.tell(CheckpointEnded(asked.wait_no))
        else:
            return False
        return True

    def round(self) -> RoundResult:
        """Begin a round, and carry it to its end."""
        self.begin_round()
        return self.end_round()

    def end_round(self) -> RoundResult:
        """Carry the round to its end; time passes where it has to."""
        for _ in range(100_000):
            if self.go_on():
                continue
            if not self.ticker.callbacks:
                break
            self.tick()
        counts = self.gc.counts
        assert counts.ended_round == counts.begun_round, "a round ends"
        return counts.result

    def tick(self) -> None:
        """Advance the clock by the time between two looks."""
        self.now_ms += CONFIRM_DELAY_MS
        for callback in [*self.ticker.callbacks]:
            callback()

    def local(self) -> list[int]:
        """Return the ledgers that the bookie has."""
        return self.bookie.storage.ledgers()

    def log_count(self) -> int:
        """Return how many entry logs are on the disk."""
        return len(self.disk.paths("/logs/"))

    def hide(self, *hidden: int) -> None:
        """Make the list leave ledgers out; without arguments, all of them."""
        leaves = {f"L{ledger_id:04d}" for ledger_id in hidden}
        self.store.names = lambda names: [
            name for name in names if not (name in leaves if hidden else name.startswith("L"))
        ]

    def fail_at(self, number: int, part: str = LEDGERS) -> None:
        """Make the store fail to answer the ``number``-th question about such a path."""
        self._left = number

        def count(path: str) -> None:
            if part in path:
                self._left -= 1
                if not self._left:
                    self.store.fail_next()

        self.store.before = count


@pytest.fixture
def world() -> Iterator[GarbageWorld]:
    """Start a bookie and its garbage collection, and end the sessions after the test."""
    world = GarbageWorld()
    yield world
    world.close()


class Box:
    """A ref that puts messages into a list."""

    def __init__(self, messages: list[Any]) -> None:
        self._messages = messages

    def tell(self, message: object) -> None:
        """Put a message into the list."""
        self._messages.append(message)
