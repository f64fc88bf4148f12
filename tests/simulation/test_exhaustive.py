"""Every interleaving of a small scope; and what the search finds when a fix is switched off."""

import pytest

from tests.simulation.exhaustive import SCENES, Closure, Search
from tests.simulation.small_scope import Scene, Switches
from zbk.protocol.recovery.reads import RecoveryReads
from zbk.protocol.recovery.writes import RecoveryWrites


@pytest.mark.parametrize(
    "scene", [pytest.param("one fragment", marks=pytest.mark.soak), "two fragments"]
)
def test_two_recoverers_in_any_order_never_break_a_promise(scene: Scene) -> None:
    found = Search(scene, loss_count=0, crash_count=0).run()

    assert (found.violation, found.is_complete) == ("", True), "\n".join(found.story)


@pytest.mark.parametrize("scene", SCENES)
def test_any_number_of_recoverers_never_breaks_a_promise(scene: Scene) -> None:
    found = Closure(scene, loss_count=0, crash_count=0).run()

    assert (found.violation, found.is_complete) == ("", True), "\n".join(found.story)


def test_a_lost_message_breaks_no_promise_behind_a_change_of_the_ensemble() -> None:
    found = Closure("two fragments", loss_count=1, crash_count=0).run()

    assert (found.violation, found.is_complete) == ("", True), "\n".join(found.story)


@pytest.mark.soak
@pytest.mark.parametrize("scene", SCENES)
def test_a_loss_and_a_crash_break_no_promise_in_any_order(scene: Scene) -> None:
    """The whole scope, to its end: eight minutes."""
    found = Closure(scene).run()

    assert (found.violation, found.is_complete) == ("", True), "\n".join(found.story)


@pytest.mark.soak
@pytest.mark.parametrize(("loss_count", "crash_count"), [(1, 0), (0, 1), (1, 1)])
def test_two_recoverers_a_loss_and_a_crash_break_no_promise_step_by_step(
    loss_count: int, crash_count: int
) -> None:
    """The exact search agrees, where it ends; both faults take six minutes and some 3 GB."""
    found = Search("two fragments", loss_count=loss_count, crash_count=crash_count).run()

    assert (found.violation, found.is_complete) == ("", True), "\n".join(found.story)


def test_recovery_reads_that_do_not_fence_lose_an_entry() -> None:
    """B1: with one lost fence, an entry is acknowledged behind the end."""
    switches = Switches(is_read_fencing=False)

    found = Search("two fragments", recoverer_count=1, crash_count=0, switches=switches).run()

    assert found.violation == "the ledger ends at 0, entry 1 is acknowledged"
    assert len(found.story) < 12


def test_a_recovery_that_ignores_where_the_last_fragment_starts_loses_an_entry() -> None:
    """B2: the last ensemble knows neither the LAC nor the entries before it."""
    switches = Switches(has_floor=False)

    found = Search("two fragments", loss_count=0, crash_count=0, switches=switches).run()

    assert found.violation == "the ledger ends at -1, entry 0 is acknowledged"
    assert len(found.story) < 12


@pytest.mark.parametrize(
    ("scene", "loss_count", "switches"),
    [
        ("two fragments", 1, Switches(is_read_fencing=False)),
        ("two fragments", 0, Switches(has_floor=False)),
    ],
    ids=["B1", "B2"],
)
def test_any_number_of_recoverers_finds_what_one_of_them_does(
    scene: Scene, loss_count: int, switches: Switches
) -> None:
    found = Closure(scene, loss_count=loss_count, crash_count=0, switches=switches).run()

    assert "is acknowledged" in found.violation


def test_an_entry_left_out_after_a_single_no_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveryReads, "_no_count_min", 1)

    found = Closure(loss_count=0, crash_count=0).run()

    assert "is acknowledged" in found.violation


def test_a_close_that_waits_for_no_write_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a loss: in order, a no to the next entry comes behind the write-back of this one."""
    monkeypatch.setattr(RecoveryWrites, "is_done", True)

    found = Closure("two fragments", loss_count=1, crash_count=0).run()

    assert "of a closed ledger is on" in found.violation
