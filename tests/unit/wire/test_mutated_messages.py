"""Mutated real messages in the decoder: a message, or a typed error, and nothing else."""

import gc
import os
import tracemalloc
from collections import Counter

import pytest

from tests.hostile.mutations import Mutations, real_requests
from zbk.errors import WireError, from_wire
from zbk.system.process import usage
from zbk.transport.bundles import parts_of
from zbk.wire import codec
from zbk.wire.messages import Bundle, Request

COUNT = 20_000
SOAK_COUNT = 10_000_000
ROUND_COUNT = 5_000
MEMORY_MAX = 4 << 20
GROWTH_MAX = 64 << 20


def decoded(header: bytes, frames: list[bytes]) -> Request | Bundle | WireError:
    """Return what the decoder makes of a message."""
    try:
        request = codec.decode_request(header)
        if isinstance(request, Bundle):
            parts_of(request.parts, request.sizes, frames)
    except WireError as error:
        return error
    return request


@pytest.mark.parametrize(
    ("seed", "count"), [(1, COUNT), pytest.param(2, SOAK_COUNT, marks=pytest.mark.soak)]
)
def test_the_decoder_returns_a_message_or_a_typed_error(seed: int, count: int) -> None:
    mutations = Mutations(seed, real_requests(7, bytes(16), 1))
    outcomes: Counter[str] = Counter()
    sizes: list[int] = []  # of the process
    for number in range(count):
        if number % ROUND_COUNT == 0:
            gc.collect()  # it is off in tests: errors refer to their frames
            sizes.append(usage(os.getpid()).rss_size)
        header, *frames = mutations.next()
        outcome = decoded(header, frames)
        outcomes[type(outcome).__name__] += 1
        if isinstance(outcome, WireError):
            refused = codec.refusal(codec.peek_request_id(header), 1, outcome)
            assert codec.decode_answer(codec.encode(refused)) == refused
            assert type(from_wire(refused.code, tuple(refused.fields))) is type(outcome)

    assert outcomes["Add"] > count / 50  # the changes left something to check behind the header
    assert outcomes["Bundle"] > count / 500
    assert outcomes["MalformedMessageError"] > count / 5
    assert outcomes["UnknownOperationError"] > 0
    assert sizes[-1] - sizes[0] < GROWTH_MAX


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
