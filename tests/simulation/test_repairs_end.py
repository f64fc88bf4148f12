"""Repairs that could not end, and do."""

import pytest

from tests.simulation.run import run_seed


@pytest.mark.parametrize("seed", [7300606, 9300084])
def test_a_repair_ends_whose_last_holder_is_in_limbo_for_ever(seed: int) -> None:
    """All others are lost; in the second the ledger ends with a fragment that holds nothing."""
    assert run_seed(seed).violations == []


def test_no_more_bookies_are_lost_at_the_end_than_a_ledger_bears() -> None:
    """Damage stopped the repair of one that had lost a bookie, and then it lost another one."""
    assert run_seed(131002471).violations == []
