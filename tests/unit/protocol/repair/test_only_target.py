"""A copy that may go to one bookie only."""

import pytest

from zbk.protocol.repair.only_target import only_target
from zbk.protocol.repair.repair_effects import ChooseTarget, TargetChosen

WANTED = ChooseTarget(ensemble=("a", "b"), slot=1, exclude=frozenset({"c"}))


def test_a_writable_bookie_takes_the_slot() -> None:
    chosen = only_target(WANTED, "d", {"d"}.__contains__, is_local=True)

    assert chosen == TargetChosen("d")


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("bookie_id", ["a", "b", "c", "d"])
def test_a_slot_that_it_cannot_take_is_left_to_others_by_a_local_bookie_only(
    bookie_id: str, is_local: bool
) -> None:
    """It is in the ensemble, it is excluded, or it takes no entries."""
    chosen = only_target(WANTED, bookie_id, {"a", "b", "c"}.__contains__, is_local=is_local)

    assert chosen == TargetChosen(None, is_skipped=is_local)
