"""Payloads that say which entry they are."""

import pytest

from benchmarks.experiments.numbered import ID_SIZE, NumberedPayloads, batches, entry_id_of


@pytest.mark.parametrize("size", [ID_SIZE, 100, 200_000])
def test_a_payload_has_its_size_and_says_its_entry(size: int) -> None:
    payload = NumberedPayloads(size)[1_234_567]

    assert len(payload) == size
    assert entry_id_of(payload) == 1_234_567


def test_a_batch_is_the_payloads_of_its_entries() -> None:
    payloads = NumberedPayloads(50)

    assert payloads.batch(3, 6) == [payloads[3], payloads[4], payloads[5]]


@pytest.mark.parametrize("count", [1, 10, 11, 19, 20])
def test_batches_cover_each_entry_once(count: int) -> None:
    found = [n for first, end in batches(count, 10) for n in range(first, end)]

    assert found == list(range(count))
