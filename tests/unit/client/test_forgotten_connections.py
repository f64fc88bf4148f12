"""A client whose connection the bookie has forgotten: every call goes on as if nothing had been.

A whole bookie in this process, which forgets a connection that is silent for 10 ms.
"""

import threading
from collections.abc import Callable, Iterator

import pytest

import zbk
from tests.support.simulated_disk import SimulatedDisk
from tests.support.waiting import wait_until
from zbk.actors.bookie import Bookie
from zbk.actors.identity import init_identity
from zbk.client.api import Client
from zbk.client.ledger_creation import LedgerOptions
from zbk.config import BookieConfig
from zbk.metadata.connect import open_store
from zbk.metadata.ledgers import initialise

ONE = LedgerOptions(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


class World:
    """A bookie, and a client whose connection may be forgotten."""

    def __init__(self) -> None:
        config = BookieConfig(
            metadata="memory://forgotten-connections", journal_dir="/j", ledger_dir="/l",
            listen="tcp://127.0.0.1:0", journal_segment_size=1 << 20, disk_reserve_size=2 << 20,
            disk_warn_free="0", disk_readonly_free="0", boot_id="boot", connection_idle_ms=10,
        )  # fmt: skip
        disk = SimulatedDisk()
        self.store = open_store(config.metadata)
        initialise(self.store)
        init_identity(disk, self.store, config)
        self.bookie = Bookie(config, disk)
        self.bookie_id = self.bookie.start().bookie_id
        self.config = config

    def connect(self, **options: object) -> Client:
        return zbk.connect(self.config.metadata, **options)

    def be_forgotten(self) -> None:
        assert self.bookie._actors is not None
        counts = self.bookie._actors.front.counts
        wait_until(lambda: counts.peer_count == 0, what="the bookie forgets the connections")

    def close(self) -> None:
        self.bookie.request_stop()
        assert self.bookie.run_until_ended() == 0
        self.store.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with world.connect() as made:
        yield made


def test_every_call_greets_again(world: World, client: Client) -> None:
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
        world.be_forgotten()

        assert call() == expected


def test_the_lac_of_an_idle_writer_is_told(world: World, client: Client) -> None:
    with world.connect(explicit_lac_ms=400, default_timeout_ms=20_000) as writing:
        writer = writing.create_ledger(**ONE)
        writer.append(b"0")
        world.be_forgotten()

        reader = client.open_ledger(writer.ledger_id)
        wait_until(lambda: reader.read_last_add_confirmed() == 0)


def test_a_tail_goes_on(world: World, client: Client) -> None:
    with world.connect() as writing:
        writer = writing.create_ledger(**ONE)
        tail = client.open_ledger(writer.ledger_id).tail(timeout=20)
        seen: list[bytes] = []
        for number in range(3):
            world.be_forgotten()  # the tail asks for nothing while nobody asks it
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

        wait_until(lambda: not client._pool._timers, what="no timer is left")
        assert writer._core.is_resting
