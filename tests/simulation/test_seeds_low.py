"""Whole clusters from seeds: every promise holds, and the dangerous places are reached."""

import pytest

from tests.simulation.seed_tests import CHUNK_COUNT, SEED_COUNT, Seeds

SEEDS = Seeds(first=0)


@pytest.mark.parametrize("chunk", range(CHUNK_COUNT))
def test_no_promise_is_broken(chunk: int) -> None:
    """Among them those of compaction and garbage collection: B30, B32, B36."""
    summary = SEEDS.run(chunk)

    assert not summary.failure_count, str(summary)


def test_the_dangerous_places_were_reached() -> None:
    if SEEDS.total.seed_count < SEED_COUNT:
        pytest.skip("only with all seeds of this file")
    assert SEEDS.missed() == []
