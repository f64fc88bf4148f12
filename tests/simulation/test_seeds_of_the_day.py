"""Whole clusters from seeds that each day has for itself. A failure prints its seed."""

import pytest

from tests.simulation.campaign import run_seeds
from tests.simulation.seed_tests import CHUNK_COUNT, seeds_of_day
from zbk.system.clock import wall_ms

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("chunk", range(CHUNK_COUNT))
def test_no_promise_is_broken(chunk: int) -> None:
    seeds = seeds_of_day(wall_ms() // DAY_MS)

    summary = run_seeds(seeds[chunk::CHUNK_COUNT])

    assert not summary.failure_count, str(summary)
