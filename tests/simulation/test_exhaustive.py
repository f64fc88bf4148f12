"""Every interleaving of a small scope; and what the search finds when a fix is switched off."""

import pytest

from tests.simulation.exhaustive import Scene, Search, Switches

STATE_COUNT_MAX = 40_000
"""Bound of a search in every test run; the searches without a bound are for the soak."""


@pytest.mark.parametrize("scene", ["one fragment", "two fragments"])
def test_one_recoverer_never_breaks_a_promise(scene: Scene) -> None:
    found = Search(scene, recoverer_count=1, loss_count=0, crash_count=1).run()

    assert (found.violation, found.is_complete) == ("", True)


@pytest.mark.parametrize("scene", ["one fragment", "two fragments"])
def test_two_recoverers_a_loss_and_a_crash_break_no_promise_in_the_first_states(
    scene: Scene,
) -> None:
    found = Search(scene, state_count_max=STATE_COUNT_MAX).run()

    assert found.violation == "", "\n".join(found.story)


@pytest.mark.soak
@pytest.mark.parametrize("scene", ["one fragment", "two fragments"])
@pytest.mark.parametrize(
    ("recoverer_count", "loss_count", "crash_count"), [(1, 1, 1), (2, 0, 0), (2, 1, 0), (2, 1, 1)]
)
def test_no_interleaving_breaks_a_promise(
    scene: Scene, recoverer_count: int, loss_count: int, crash_count: int
) -> None:
    found = Search(
        scene,
        recoverer_count=recoverer_count,
        loss_count=loss_count,
        crash_count=crash_count,
        state_count_max=3_000_000,
    ).run()

    assert found.violation == "", "\n".join(found.story)


def test_recovery_reads_that_do_not_fence_lose_an_entry() -> None:
    """B1: with one lost fence, an entry is acknowledged behind the end."""
    switches = Switches(is_read_fencing=False)

    found = Search(recoverer_count=1, crash_count=0, switches=switches).run()

    assert found.violation == "the ledger ends at -1, entry 0 is acknowledged"
    assert len(found.story) < 12


def test_a_recovery_that_ignores_where_the_last_fragment_starts_loses_an_entry() -> None:
    """B2: the last ensemble knows neither the LAC nor the entries before it."""
    switches = Switches(has_floor=False)

    found = Search(
        "two fragments", recoverer_count=1, loss_count=0, crash_count=0, switches=switches
    ).run()

    assert found.violation == "the ledger ends at -1, entry 0 is acknowledged"
    assert len(found.story) < 12
