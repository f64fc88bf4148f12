"""Ledgers that the metadata have nothing of leave limbo, but not on the word of a list."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.garbage_collector import LyingStore
from tests.support.ledgers import metadata_maker
from tests.support.memory_store import named_tree
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.losses import Losses
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.recheck import LimboRecheck
from zbk.durability.limbo import LossReason
from zbk.errors import MetadataUnavailableError
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.underreplicated import MissingReason
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.disk.fail_stop import FailStop

TREE = f"test-recheck-{uuid4().hex}"
LEDGER_COUNT = 6


class Recheck:
    """A bookie of which all ledgers are in limbo, and a store that a test may have lie."""

    def __init__(self) -> None:
        disk = SimulatedDisk()
        disk.make_dirs("/l")
        self.limbo = LimboFile(disk, "/l", bookie_id="b-1", fail_stop=FailStop())
        self.store = LyingStore(named_tree(TREE))
        initialise(self.store)
        self.ledgers = LedgerStore(self.store)
        self.ids = [self._create() for _ in range(LEDGER_COUNT)]
        self.limbo.note_loss(LossReason.WIPED, self.ids[-1] + 1)
        self.connection = ClusterConnection(f"memory://{TREE}")
        self.connection.ledgers = self.ledgers
        self.recheck = LimboRecheck(
            Losses(disk, self.limbo, ["/l"], "boot-1"),
            "b-1",
            lambda: self.connection,
            grace_ms=0,
            on_failure=lambda error: pytest.fail(str(error)),
        )

    def _create(self) -> int:
        """Make a ledger that stays in limbo: its writer may be there still."""
        maker = metadata_maker(bookies=("b-1", "b-2", "b-3"))
        return self.ledgers.create(maker)[0].ledger_id

    def check(self) -> None:
        """Run one round."""
        listed = list(self.ledgers.list())
        self.recheck._check_ledgers(self.connection, listed, has_lost_fences=True)

    def put_aside(self, ledger_id: int) -> None:
        """Mark a ledger unrepairable, as a worker does."""
        tasks = self.connection.tasks
        tasks.report(ledger_id, ["b-2", "b-3"], MissingReason.LOST)
        assert tasks.lock(ledger_id, "worker")
        found = tasks.read(ledger_id)
        assert found is not None
        assert tasks.mark_unrepairable(ledger_id, found[1], "b-1 may have had it")

    def in_limbo(self) -> list[int]:
        return [one for one in self.ids if self.limbo.limbo.is_miss_unknown(one, None)]


@pytest.fixture
def world() -> Iterator[Recheck]:
    world = Recheck()
    yield world
    world.connection.close()
    world.store.close()


def test_deleted_ledgers_leave_limbo(world: Recheck) -> None:
    for ledger_id in world.ids[1:3]:
        world.ledgers.delete(ledger_id)

    world.check()

    assert world.in_limbo() == [world.ids[0], *world.ids[3:]]


def test_an_empty_list_takes_none_out_of_limbo(world: Recheck) -> None:
    world.store.names = lambda _names: []

    world.check()

    assert world.in_limbo() == world.ids


@pytest.mark.parametrize("left_out", range(LEDGER_COUNT))
def test_a_list_that_leaves_a_ledger_out_leaves_it_in_limbo(world: Recheck, left_out: int) -> None:
    """A bookie that denies what it has lost may have entries cut off that were acknowledged."""
    tail = f"{world.ids[left_out]:04d}"
    world.store.names = lambda names: [name for name in names if not name.endswith(tail)]

    world.check()

    assert world.in_limbo() == world.ids


def test_a_ledger_that_leaves_limbo_is_handed_out_if_it_was_put_aside(world: Recheck) -> None:
    """It was put aside because of what this bookie did not know."""
    tasks = world.connection.tasks
    for ledger_id in world.ids[:2]:
        world.put_aside(ledger_id)
    world.ledgers.delete(world.ids[0])

    world.check()

    assert world.ids[0] not in world.in_limbo()
    assert list(tasks.list()) == [world.ids[0]]
    assert list(tasks.list_unrepairable()) == [world.ids[1]]


def test_a_ledger_is_handed_out_although_the_store_was_away_at_the_end(
    world: Recheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is in limbo any more then, but the ledger is still put aside."""
    world.put_aside(world.ids[-1])
    for ledger_id in list(world.ledgers.list()):  # with those of other tests
        world.ledgers.delete(ledger_id)
    answer = UnderreplicationStore.list_unrepairable
    errors = [MetadataUnavailableError(TREE, "its leader is being elected")]

    def list_unrepairable(tasks: UnderreplicationStore) -> Iterator[int]:
        if errors and not world.in_limbo():
            raise errors.pop()
        return answer(tasks)

    monkeypatch.setattr(UnderreplicationStore, "list_unrepairable", list_unrepairable)
    monkeypatch.setattr(world.recheck, "_connect", lambda: ClusterConnection(f"memory://{TREE}"))
    monkeypatch.setattr(world.recheck._is_stopped, "wait", lambda _seconds: False)

    world.recheck._run()

    assert not world.in_limbo()
    assert not errors
    tasks = UnderreplicationStore(world.store)
    assert world.ids[-1] in tasks.list()
    assert world.ids[-1] not in tasks.list_unrepairable()
