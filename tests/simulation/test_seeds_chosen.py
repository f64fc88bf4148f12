"""Whole clusters from chosen seeds: every promise holds, and the dangerous places are reached."""

import pytest

from tests.simulation.campaign import Summary, run_seeds
from tests.simulation.chosen_seeds import COVERING_SEEDS
from tests.simulation.seed_tests import CHUNK_COUNT, DANGEROUS_PLACES

TOTAL = Summary()


@pytest.mark.parametrize("chunk", range(CHUNK_COUNT))
def test_no_promise_is_broken(chunk: int) -> None:
    """Among them those of compaction and garbage collection: B30, B32, B36."""
    summary = run_seeds(COVERING_SEEDS[chunk::CHUNK_COUNT])
    TOTAL.take(summary)

    assert not summary.failure_count, str(summary)


def test_the_dangerous_places_were_reached() -> None:
    if TOTAL.seed_count < len(COVERING_SEEDS):
        pytest.skip("only with all seeds of this file")
    assert [place for place in DANGEROUS_PLACES if not TOTAL.sometimes[place]] == []
