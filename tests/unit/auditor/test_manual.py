"""Repairs by hand: a stop ends them; what cannot be read, or has changed, is no permission."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.fake_holders import FakeHolders
from tests.support.memory_store import MemoryTree
from zbk.auditor.ledger_repairer import LedgerRepairer, RepairSetup
from zbk.auditor.manual import BookieMove, Decommission, LedgerLoss, MoveOptions
from zbk.auditor.target_policies import PlacementTarget
from zbk.client.cluster.ledger_calls import LedgerCalls
from zbk.errors import BookieInUseError, DamageError, InvalidOptionError, UnavailableError
from zbk.metadata.paths import cookie_path, ledger_path, registration_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.values import Cookie, LedgerLayout
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.repair_effects import RepairAim, RepairLimits
from zbk.transport.events import Sink
from zbk.wire.messages import Message

LOOK_COUNT_MAX = 1_000


class Stop(threading.Event):
    """A stop whose readers may not look for ever."""

    look_count = 0

    def is_set(self) -> bool:
        self.look_count += 1
        assert self.look_count < LOOK_COUNT_MAX, "it goes on without an end"
        return super().is_set()


class StoppingHolders(FakeHolders):
    """The first request to a bookie comes together with a stop."""

    def __init__(self, metadata: LedgerMetadata, stop: Stop) -> None:
        super().__init__(metadata)
        self.stop = stop
        self.range_count_max = 1

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        self.stop.set()
        super().send(bookie_id, request, frames, box, key, wait_ms=wait_ms)


class World:
    """Two closed ledgers on a, b and c; a is gone, and b and c hold every second entry."""

    def __init__(self) -> None:
        self.store = MemoryTree().open_session()
        initialise(self.store)
        self.stop = Stop()
        model = ledger(0, ("a", "b", "c"))
        self.requests = StoppingHolders(model, self.stop)
        for held in self.requests.entries.values():
            for entry_id in range(1, 10, 2):
                del held[entry_id]
        ledgers = LedgerStore(self.store)
        for _ in range(2):
            ledgers.create(
                lambda number: msgspec.structs.replace(
                    model, ledger_id=number, ledger_key=bytes(16)
                )
            )
        self.copier: Any = SimpleNamespace(copy=lambda *_a, **_k: pytest.fail("it copies"))
        self.registered = frozenset("bct")
        self.tasks = UnderreplicationStore(self.store)
        self.registry = BookieRegistry(self.store)
        self.registry.create_cookie(
            Cookie(
                bookie_id="a",
                instance_id="i",
                journal_dirs=("/j",),
                ledger_dirs=("/l",),
                created_ms=0,
            )
        )
        self.connection: Any = SimpleNamespace(
            ledgers=ledgers,
            tasks=self.tasks,
            requests=self.requests,
            registry=self.registry,
            registered=lambda: self.registered,
            placer=SimpleNamespace(replacements=lambda *_a, **_k: {0: "t"}),
        )

    def move(self) -> BookieMove:
        return BookieMove(
            self.connection, "a", MoveOptions(), copier=self.copier, is_stopped=self.stop
        )

    def leaving(self) -> Decommission:
        return Decommission(self.move(), self.connection, "a")

    def damage(self, ledger_id: int) -> None:
        path = ledger_path(ledger_id, LedgerLayout.HIERARCHICAL)
        self.store.set(path, b"\xc1", self.store.get(path).version)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.store.close()


def test_a_stop_ends_the_statement_of_losses(world: World) -> None:
    with pytest.raises(BookieInUseError, match="stopped"):
        world.leaving().losses()
    assert not world.tasks.locked()
    assert world.requests.asked == ["b"]


def test_a_stop_ends_the_giving_up_of_losses(world: World) -> None:
    with pytest.raises(BookieInUseError, match="stopped"):
        world.leaving().give_up([LedgerLoss(0, ()), LedgerLoss(1, ())])
    assert not world.tasks.locked()
    assert world.connection.ledgers.read(0)[0].last_fragment.bookies == ("a", "b", "c")


def test_a_stopped_decommission_begins_with_no_ledger(world: World) -> None:
    world.stop.set()
    with pytest.raises(BookieInUseError, match="stopped"):
        world.leaving().losses()
    assert world.requests.asked == []


def test_a_stopped_question_has_no_answer(world: World) -> None:
    """An answer that names no progress would be asked for again, for ever."""
    world.stop.set()
    calls = LedgerCalls(world.requests, 0)
    with pytest.raises(UnavailableError, match="stopped"):
        calls.holdings("b", (0, 9), is_stopped=world.stop.is_set)
    assert world.requests.asked == []


def test_a_repair_that_is_stopped_in_a_question_has_no_error_of_it(world: World) -> None:
    setup = RepairSetup(
        connection=world.connection,
        copier=world.copier,
        targets=PlacementTarget(world.connection.placer),
        limits=RepairLimits(),
        is_stopped=world.stop,
    )
    aim = RepairAim(ledger_id=0, suspects=frozenset("b"), to_compare=frozenset("b"))
    world.registered = frozenset("abc")
    result = LedgerRepairer(aim, setup).run()
    assert (result.is_stopped, result.error) == (True, None)


def test_unreadable_metadata_keep_no_other_ledger_from_its_move(world: World) -> None:
    """One damaged record is no reason to leave all replicas on a bookie that fails."""
    world.damage(0)
    world.copier.copy = lambda *_a, **_k: CopyResult(is_stopped=True)

    moved = list(world.move().run())

    assert [one.ledger_id for one in moved] == [0, 1]
    assert moved[0].outcome == "failed"
    assert "cannot be read" in moved[0].why


def test_a_bookie_stays_while_unreadable_metadata_may_name_it(world: World) -> None:
    world.damage(0)
    world.connection.ledgers.delete(1)

    with pytest.raises(BookieInUseError, match=r"cannot be read.*: 0"):
        world.leaving().finish()
    with pytest.raises(BookieInUseError, match=r"ledger 0 cannot be read"):
        world.leaving().losses()
    assert world.registry.read_cookie("a") is not None


def test_a_ledger_that_is_asked_for_is_damaged_by_its_own_error(world: World) -> None:
    world.damage(0)
    move = BookieMove(world.connection, "a", MoveOptions(ledger_id=0), copier=world.copier)
    with pytest.raises(DamageError):
        list(move.run())


def test_a_damaged_cookie_of_another_bookie_keeps_none_from_its_move(world: World) -> None:
    world.store.create(cookie_path("b"), b"\xc1")
    world.move().check()


def test_a_bookie_whose_cookie_was_deleted_early_leaves_the_ledgers_that_name_it(
    world: World,
) -> None:
    """Otherwise nobody could give up what only it had: the ledgers would stay unrepairable."""
    world.registry.delete_cookie("a")
    world.copier.copy = lambda *_a, **_k: CopyResult(is_stopped=True)

    assert [one.ledger_id for one in world.leaving().run()] == [0, 1]

    for ledger_id in (0, 1):
        world.connection.ledgers.delete(ledger_id)
    world.leaving().finish()
    with pytest.raises(InvalidOptionError, match="has no cookie"):
        world.move().check()


def test_a_mistyped_bookie_is_refused_beside_unreadable_metadata(world: World) -> None:
    world.damage(0)
    move = BookieMove(world.connection, "x", MoveOptions(), copier=world.copier)
    with pytest.raises(InvalidOptionError, match="has no cookie"):
        move.check()


@pytest.mark.parametrize("record", [b"\xc1", b""])
def test_a_bookie_with_an_unreadable_registration_runs(world: World, record: bytes) -> None:
    """A newer zbk may have written it; the watched list of bookies leaves it out."""
    world.registered = frozenset("bct")
    world.store.create(registration_path("a", is_readonly=False), record, is_ephemeral=True)

    with pytest.raises(BookieInUseError, match="running"):
        list(world.leaving().run())
    for ledger_id in (0, 1):
        world.connection.ledgers.delete(ledger_id)
    with pytest.raises(BookieInUseError, match="running"):
        world.leaving().finish()
    assert world.registry.read_cookie("a") is not None
