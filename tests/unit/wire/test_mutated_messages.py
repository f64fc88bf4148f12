"""Mutated real messages in the decoder: a message, or a typed error, and nothing else."""

import tracemalloc

import pytest

from tests.hostile.decoder import GROWTH_MAX, ROUND_COUNT, DecoderRun, decoded
from tests.hostile.mutations import Mutations, real_requests

COUNT = 20_000
SOAK_COUNT = 10_000_000
MEMORY_MAX = 4 << 20


@pytest.mark.parametrize(
    ("seed", "count"), [(1, COUNT), pytest.param(2, SOAK_COUNT, marks=pytest.mark.soak)]
)
def test_the_decoder_returns_a_message_or_a_typed_error(seed: int, count: int) -> None:
    run = DecoderRun(seed)
    while run.count < count:
        run.round(min(ROUND_COUNT, count - run.count))  # asserts that each outcome is one of these

    outcomes = run.outcomes
    assert sum(outcomes.values()) == count
    assert outcomes["Add"] > count / 50  # the changes left something to check behind the header
    assert outcomes["Bundle"] > count / 500
    assert outcomes["MalformedMessageError"] > count / 5
    assert outcomes["UnknownOperationError"] > 0
    assert run.growth_size < GROWTH_MAX


def test_a_header_costs_no_more_memory_than_its_size_suggests() -> None:
    mutations = Mutations(3, real_requests(7, bytes(16), 1))
    headers = [mutations.next()[0] for _ in range(2_000)]
    tracemalloc.start()
    try:
        for header in headers:
            tracemalloc.reset_peak()
            before, _peak = tracemalloc.get_traced_memory()
            decoded(header, [])
            assert tracemalloc.get_traced_memory()[1] - before < MEMORY_MAX
    finally:
        tracemalloc.stop()
