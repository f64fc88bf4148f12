"""Very many ledgers in one client, each with an append under way: slow at worst, and no error."""

from collections.abc import Iterator

import pytest

from tests.support.bookie_here import ONE, BookieHere

LEDGER_COUNT = 300
ROUND_COUNT = 3
TIMEOUT_MS = 400
"""How long the bookie may take for an answer. All answers of a round may take longer."""


@pytest.fixture
def world() -> Iterator[BookieHere]:
    made = BookieHere()
    yield made
    made.close()


def test_nothing_fails_because_there_are_many_ledgers(world: BookieHere) -> None:
    with world.connect(request_timeout_ms=TIMEOUT_MS, quorum_grace_ms=10_000) as client:
        writers = [client.create_ledger(**ONE) for _ in range(LEDGER_COUNT)]
        for number in range(ROUND_COUNT):
            futures = [writer.append_async(b"x" * 100) for writer in writers]

            assert {future.result(60) for future in futures} == {number}

        assert client._writers._budget.size == 0, "what was answered is given back"
