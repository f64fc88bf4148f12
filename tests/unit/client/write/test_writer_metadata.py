"""What a writer does in the metadata store, on a store in memory that fails on cue."""

import logging
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryTree
from zbk.client.cluster.metadata_actor import MetadataTask
from zbk.client.cluster.placer import BookiePlacer
from zbk.client.write.writer_metadata import (
    ClosedInMetadata,
    EnsembleSettled,
    EnsembleTurn,
    MetadataNews,
    MissingNoted,
    WriterMetadata,
)
from zbk.client.write.writer_requests import CatchUpAnswered
from zbk.errors import (
    BusyError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataUnavailableError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.values import Layout
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write.catch_up import SendCatchUp
from zbk.protocol.write.events import (
    ChangeEnsemble,
    CloseLedger,
    EnsembleChanged,
    EnsembleChangeFailed,
    EnsembleChangeTurn,
    ReportMissing,
)


class AtOnce:
    """A metadata actor that does each task where it is told of it."""

    def tell(self, _ledger_id: int, task: MetadataTask) -> None:
        try:
            outcome: Any = task.run()
        except ZbkError as error:
            outcome = error
        task.done(outcome)


class Spares:
    """A placer that gives out spare bookies in order."""

    def __init__(self) -> None:
        self.spares = ["s1", "s2", "s3"]
        self.failed: list[str] = []
        self.urgent: list[bool] = []

    def note_failed(self, bookie_ids: list[str]) -> None:
        self.failed += bookie_ids

    def lacking(self, needs: frozenset[str]) -> str:
        return "old" if needs else ""

    def replacements(
        self,
        ensemble: tuple[str, ...],
        failed_slots: list[int],
        *,
        may_avoided: bool,
        needs: frozenset[str],
    ) -> dict[int, str]:
        self.needs = needs
        self.urgent.append(may_avoided)
        found = dict(zip(sorted(failed_slots), self.spares, strict=False))
        self.spares = self.spares[len(found) :]
        return found


class World:
    """One ledger on bookies b0, b1, b2; its writer; and somebody else, in another session."""

    def __init__(self) -> None:
        tree = MemoryTree("test")
        self.store, self.other_store = tree.open_session(), tree.open_session()
        initialise(self.store, Layout())
        self.ledgers, self.others = map(self._ledgers, (self.store, self.other_store))
        made, _version = self.ledgers.create(metadata_maker(bookies=("b0", "b1", "b2")))
        self.ledger_id = made.ledger_id
        self.placer = Spares()
        self.tasks = UnderreplicationStore(self.other_store)
        self.writer = WriterMetadata(
            made,
            self.ledgers,
            UnderreplicationStore(self.store),
            cast("BookiePlacer", self.placer),
            cast("Any", AtOnce()),
        )
        self.told: list[MetadataNews] = []
        self.sent: list[SendCatchUp] = []

    def send(self, send: SendCatchUp, _change_id: int) -> None:
        self.sent.append(send)

    def _ledgers(self, store: Any) -> LedgerStore:  # noqa: ANN401 - a MemoryStore
        return LedgerStore(store, pause=lambda _s: None)

    def change(
        self, change_id: int = 0, first: int = 5, *, is_urgent: bool = False
    ) -> EnsembleChanged | EnsembleChangeFailed:
        ensemble = self.writer.current.last_fragment.bookies
        change = ChangeEnsemble(change_id, first, {2: ensemble[2]}, is_urgent)
        self.writer.change_ensemble(change, ensemble, self.send, self.told.append)
        settled = self.told.pop()
        assert isinstance(settled, EnsembleSettled)
        self.writer.take_in(settled)
        return settled.event

    def close(self, last_entry_id: int = 4, length: int = 40) -> ClosedInMetadata:
        end = CloseLedger(Future(), last_entry_id, length)
        self.writer.close(end, self.told.append)
        closed = self.told.pop()
        assert isinstance(closed, ClosedInMetadata)
        self.writer.take_in(closed)
        return closed

    def meddle(self, change: Callable[[LedgerMetadata], LedgerMetadata]) -> None:
        self.others.update(self.ledger_id, change)

    def fragments(self) -> list[tuple[int, tuple[str, ...]]]:
        stored, _version = self.others.read(self.ledger_id)
        return [(fragment.first_entry_id, fragment.bookies) for fragment in stored.fragments]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.store.close()
    world.other_store.close()


def test_a_change_is_written_and_followed(world: World) -> None:
    assert world.change() == EnsembleChanged(0, 5, ("b0", "b1", "s1"))

    assert world.fragments() == [(0, ("b0", "b1", "b2")), (5, ("b0", "b1", "s1"))]
    assert world.writer.current.last_fragment.bookies == ("b0", "b1", "s1")
    assert world.placer.failed == ["b2"]


def test_a_change_tells_when_its_turn_at_the_store_has_come(world: World) -> None:
    waiting: list[MetadataTask] = []

    class Later:
        def tell(self, _ledger_id: int, task: MetadataTask) -> None:
            waiting.append(task)

    world.writer._actors = cast("Any", Later())
    told: list[MetadataNews] = []
    change = ChangeEnsemble(3, 5, {2: "b2"}, is_urgent=False)

    world.writer.change_ensemble(change, ("b0", "b1", "b2"), world.send, told.append)
    assert told == [EnsembleTurn(EnsembleChangeTurn(3, has_come=False))]
    waiting[0].run()

    assert told[1:] == [EnsembleTurn(EnsembleChangeTurn(3, has_come=True))]


UNSYNCED = EntryBatch(7, range(5, 8), array("I", [1, 1, 1]), b"abc", 0)


def begin_with_unsynced(world: World, change_id: int = 0) -> None:
    ensemble = world.writer.current.last_fragment.bookies
    change = ChangeEnsemble(
        change_id, 5, {2: ensemble[2]}, is_urgent=False, unsynced={2: (UNSYNCED,)}
    )
    world.writer.change_ensemble(change, ensemble, world.send, world.told.append)


def test_a_new_bookie_catches_up_before_the_metadata_name_it(world: World) -> None:
    begin_with_unsynced(world)
    assert world.sent == [SendCatchUp(2, "s1", (UNSYNCED,), 4)]
    assert world.told == [EnsembleTurn(EnsembleChangeTurn(0, has_come=False))]

    world.writer.catch_up_answered(CatchUpAnswered(0, 2, None))
    assert world.fragments() == [(0, ("b0", "b1", "b2"))]
    world.writer.catch_up_answered(CatchUpAnswered(0, 2, 7))

    assert world.fragments() == [(0, ("b0", "b1", "b2")), (5, ("b0", "b1", "s1"))]
    begin_with_unsynced(world)
    assert len(world.sent) == 1, "the same change again sends nothing again"


def test_a_bookie_that_cannot_catch_up_is_left_out_and_avoided(world: World) -> None:
    begin_with_unsynced(world)

    world.writer.catch_up_answered(CatchUpAnswered(0, 2, BusyError("too much")))

    settled = world.told[-1]
    assert isinstance(settled, EnsembleSettled)
    assert isinstance(settled.event, EnsembleChangeFailed)
    assert isinstance(settled.event.error, NotEnoughBookiesError)
    assert world.placer.failed == ["b2", "s1"]
    assert world.fragments() == [(0, ("b0", "b1", "b2"))]

    begin_with_unsynced(world, change_id=1)
    world.writer.catch_up_answered(CatchUpAnswered(0, 2, 7))
    assert world.fragments() == [(0, ("b0", "b1", "b2"))], "an answer to the change before is late"
    for outcome in (None, 7):
        world.writer.catch_up_answered(CatchUpAnswered(1, 2, outcome))
    assert world.fragments()[-1] == (5, ("b0", "b1", "s2"))


def test_the_fragment_of_an_entry_that_was_never_acknowledged_is_replaced(world: World) -> None:
    world.change()

    assert world.change(1) == EnsembleChanged(1, 5, ("b0", "b1", "s2"))

    assert world.fragments() == [(0, ("b0", "b1", "b2")), (5, ("b0", "b1", "s2"))]


def test_without_a_replacement_the_metadata_are_not_asked(world: World) -> None:
    world.placer.spares = []
    world.store.fail_next()

    event = world.change(is_urgent=True)

    assert isinstance(event, EnsembleChangeFailed)
    assert isinstance(event.error, NotEnoughBookiesError)
    assert world.placer.urgent == [True]


def test_the_same_change_again_takes_the_same_bookies(world: World) -> None:
    """B4: after silence nobody knows what was written, so nothing else may be."""
    world.store.fail_next()
    event = world.change()
    assert isinstance(event, EnsembleChangeFailed)
    assert isinstance(event.error, MetadataUnavailableError)
    assert world.fragments() == [(0, ("b0", "b1", "b2"))]

    assert world.change() == EnsembleChanged(0, 5, ("b0", "b1", "s1"))

    assert world.placer.spares == ["s2", "s3"]


def test_a_lost_reply_is_read_back(world: World) -> None:
    world.store.lose_next_reply()

    assert world.change() == EnsembleChanged(0, 5, ("b0", "b1", "s1"))


def test_what_somebody_changed_meanwhile_is_kept(world: World) -> None:
    """B14: a bookie of an old fragment was replaced; ours is a new fragment behind it."""
    world.change()
    world.meddle(lambda now: now.with_replaced_bookie(0, "b1", "x"))

    assert world.change(1, first=9) == EnsembleChanged(1, 9, ("b0", "b1", "s2"))

    assert [bookies for _first, bookies in world.fragments()] == [
        ("b0", "x", "b2"),
        ("b0", "b1", "s1"),
        ("b0", "b1", "s2"),
    ]


def test_a_bookie_that_somebody_replaced_is_not_replaced_again(world: World) -> None:
    """B14: the failed bookie is gone from the last fragment: what is there now is adopted."""
    world.meddle(lambda now: now.with_replaced_bookie(0, "b2", "x"))

    assert world.change() == EnsembleChanged(0, 0, ("b0", "b1", "x"))

    assert world.fragments() == [(0, ("b0", "b1", "x"))]


def test_a_ledger_in_recovery_is_not_changed(world: World) -> None:
    world.meddle(LedgerMetadata.with_recovery)

    event = world.change()

    assert isinstance(event, EnsembleChangeFailed)
    assert isinstance(event.error, LedgerFencedError)
    assert world.fragments() == [(0, ("b0", "b1", "b2"))]


def test_a_closed_ledger_is_not_changed(world: World) -> None:
    world.meddle(lambda now: now.with_closed(4, 40))

    event = world.change()

    assert isinstance(event, EnsembleChangeFailed)
    assert isinstance(event.error, LedgerClosedError)


def test_a_closed_ledger_is_known_as_closed(world: World) -> None:
    assert world.close().outcome is None

    assert world.writer.current.state is LedgerState.CLOSED
    assert world.writer.current.last_entry_id == 4


def test_closing_at_the_same_end_twice_is_fine(world: World) -> None:
    world.meddle(lambda now: now.with_closed(4, 40))

    assert world.close().outcome is None


def test_closing_at_another_end_fails(world: World) -> None:
    world.meddle(lambda now: now.with_closed(3, 30))

    assert isinstance(world.close().outcome, LedgerClosedError)


def test_a_ledger_in_recovery_is_its_recoverers_to_close(world: World) -> None:
    world.meddle(LedgerMetadata.with_recovery)

    assert isinstance(world.close().outcome, LedgerFencedError)


def test_what_a_replaced_bookie_lacks_is_reported(world: World) -> None:
    noted: list[MissingNoted] = []
    report = ReportMissing({"b2": ((1, 4),)})

    world.writer.report_missing(report, noted.append)

    assert noted == [MissingNoted(report)]
    found = world.tasks.read(world.ledger_id)
    assert found is not None
    assert found[0].missing == {"b2": (MissingReason.NOT_WRITTEN,)}
    assert found[0].ranges == {"b2": ((1, 4),)}


def test_a_report_that_nobody_answers_is_not_noted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    noted: list[MissingNoted] = []
    world.store.suspend()

    with caplog.at_level(logging.INFO, "zbk.client"):
        world.writer.report_missing(ReportMissing({"b2": ((1, 4),)}), noted.append)

    assert noted == []
    assert "are reported later" in caplog.text


def test_a_ledger_is_closed_with_the_report_of_what_it_lacks(world: World) -> None:
    end = CloseLedger(Future(), 4, 40, {"b1": ((3, 3),)})

    world.writer.close(end, world.told.append)

    found = world.tasks.read(world.ledger_id)
    assert found is not None
    assert found[0].ranges == {"b1": ((3, 3),)}
