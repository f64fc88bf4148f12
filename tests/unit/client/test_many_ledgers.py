"""Making and closing many ledgers at once, on a whole bookie in this process."""

from collections.abc import Iterator

import pytest

from tests.support.bookie_here import ONE, BookieHere
from tests.support.memory_store import MemoryStore
from zbk.client.api import Client
from zbk.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataUnavailableError,
    NotEnoughBookiesError,
)
from zbk.metadata.records.ledgers import CREATE_COUNT_MAX
from zbk.metadata.stores.store import Operation


@pytest.fixture
def client(world: BookieHere) -> Iterator[Client]:
    with world.connect(default_timeout_ms=30_000) as made:
        yield made


def test_many_ledgers_are_made_written_and_closed_at_once(client: Client) -> None:
    count = 2 * CREATE_COUNT_MAX + 7

    writers = client.create_ledgers(count, **ONE)
    futures = [writer.append_many([b"x"] * (1 + at % 3)) for at, writer in enumerate(writers)]
    ends = client.close_all(writers)

    assert [writer.ledger_id for writer in writers] == list(range(count))
    assert ends == [at % 3 for at in range(count)]
    assert all(future.done() for future in futures)
    assert all(client.open_ledger(writer.ledger_id).metadata.is_closed for writer in writers)


def test_closing_again_gives_the_same_answer(client: Client) -> None:
    writers = client.create_ledgers(3, **ONE)
    writers[1].append(b"x")
    writers[1].close()

    assert client.close_all(writers) == [-1, 0, -1]
    assert client.close_all(writers) == [-1, 0, -1]


def test_what_fails_is_raised_and_all_others_are_closed(client: Client) -> None:
    writers = client.create_ledgers(20, **ONE)
    for at in (3, 5, *range(8, 20)):
        client.recover_ledger(writers[at].ledger_id)  # closes it in the place of its writer
    for writer in writers:
        writer.append_async(b"x")

    with pytest.raises((LedgerFencedError, LedgerClosedError)) as caught:
        client.close_all(writers)

    assert "of 20 ledgers these are not closed either: 5, 8, 9" in caught.value.__notes__[0]
    assert caught.value.__notes__[0].endswith("and 3 more")
    for at in (0, 1, 2, 4, 6, 7):
        assert client.open_ledger(writers[at].ledger_id).last_add_confirmed == 0


def test_when_the_store_fails_half_way_no_ledger_is_left(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(client.list_ledgers())
    multi = MemoryStore.multi
    calls: list[int] = []

    def fails_later(self: MemoryStore, operations: list[Operation]) -> None:
        calls.append(len(operations))
        if len(calls) > 2:
            raise MetadataUnavailableError("store", "gone")
        multi(self, operations)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "multi", fails_later)
        with pytest.raises(Exception, match=r"gone|in a row"):
            client.create_ledgers(3 * CREATE_COUNT_MAX, **ONE)

    assert list(client.list_ledgers()) == before


def test_without_enough_bookies_none_is_made(world: BookieHere) -> None:
    with world.connect(connect_timeout_ms=100) as client:
        with pytest.raises(NotEnoughBookiesError):
            client.create_ledgers(5, ensemble_size=2, write_quorum_size=2, ack_quorum_size=2)
        assert not list(client.list_ledgers())


@pytest.mark.parametrize("count", [0, -1, 100_001])
def test_a_count_that_makes_no_sense_is_refused(client: Client, count: int) -> None:
    with pytest.raises(ArgumentValueError):
        client.create_ledgers(count, **ONE)


def test_what_is_no_writer_is_refused(client: Client) -> None:
    with pytest.raises(ArgumentTypeError, match="writers"):
        client.close_all([7])  # type: ignore[list-item]
    with pytest.raises(ArgumentTypeError, match="writers"):
        client.close_all(7)  # type: ignore[arg-type]
