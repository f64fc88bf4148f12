"""A client whose connection the bookie has forgotten: every call goes on as if nothing had been.

A whole bookie in this process, which forgets a connection that is silent for 10 ms.
"""

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.bookie_here import ONE, BookieHere
from tests.support.waiting import wait_until
from zbk.client.api import Client
from zbk.client.write.ledger_creation import LedgerOptions


@pytest.fixture
def world() -> Iterator[BookieHere]:
    made = BookieHere(connection_idle_ms=10)
    yield made
    made.close()


def test_every_call_greets_again(world: BookieHere, client: Client) -> None:
    writer = client.create_ledger(**LedgerOptions(**ONE, ledger_type="VD_JOURNAL"))
    writer.append(b"0")
    writer.sync()
    ledger_id = writer.ledger_id
    reader = client.open_ledger(ledger_id)
    calls: list[tuple[Callable[[], object], object]] = [
        (lambda: writer.append(b"1"), 1),
        (lambda: writer.append_many([b"2", b"3"]).result(20), range(2, 4)),
        (writer.sync, 3),
        (lambda: client.sync_ledger(ledger_id), 3),
        (reader.read_last_add_confirmed, 3),
        (lambda: [entry.payload for entry in reader.read(0, 3)], [b"0", b"1", b"2", b"3"]),
        (lambda: [entry.payload for entry in reader.read_unconfirmed(2, 3)], [b"2", b"3"]),
        (lambda: client.open_ledger(ledger_id).last_add_confirmed, 3),
        (lambda: client.bookie_info(world.bookie_id).bookie_id, world.bookie_id),
        (lambda: client.create_ledger(**ONE).append(b"x"), 0),
        (lambda: client.recover_ledger(ledger_id).last_add_confirmed, 3),
    ]
    for call, expected in calls:
        world.wait_until_forgotten()

        assert call() == expected


def test_the_lac_of_an_idle_writer_is_told(world: BookieHere, client: Client) -> None:
    with world.connect(explicit_lac_ms=400, default_timeout_ms=20_000) as writing:
        writer = writing.create_ledger(**ONE)
        writer.append(b"0")
        world.wait_until_forgotten()

        reader = client.open_ledger(writer.ledger_id)
        wait_until(lambda: reader.read_last_add_confirmed() == 0)


def test_a_tail_goes_on(world: BookieHere, client: Client) -> None:
    with world.connect() as writing:
        writer = writing.create_ledger(**ONE)
        tail = client.open_ledger(writer.ledger_id).tail(timeout=20)
        seen: list[bytes] = []
        for number in range(3):
            world.wait_until_forgotten()  # the tail asks for nothing while nobody asks it
            payload = b"%d" % number
            thread = threading.Thread(target=lambda: seen.append(bytes(next(tail).payload)))
            thread.start()  # it polls, and is answered when the entry is there
            writer.append(payload)
            thread.join(20)

            assert seen[-1] == payload


def test_a_writer_at_rest_asks_for_no_ticks(client: Client) -> None:
    writer = client.create_ledger(**ONE)
    for _ in range(2):
        writer.append(b"0")

        wait_until(lambda: not client._pool._alarms, what="no timer is left")
        assert not writer._core.is_watching
