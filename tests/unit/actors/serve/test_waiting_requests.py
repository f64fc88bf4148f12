"""What the storage actor does with the requests that wait in its door's queue."""

import threading

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, batch
from zbk.actors.serve import fair_queue
from zbk.actors.serve.fair_queue import SMALL_SIZE_MAX, TURN_SIZE
from zbk.actors.serve.storage_door import Quiesce, RequestsWait
from zbk.system.clock import monotonic_us
from zbk.transport.inbound import Inbound
from zbk.wire.messages import AddAnswer

LARGE, SMALL = 7, 8  # ledgers


@pytest.fixture
def world() -> World:
    world = World(SimulatedDisk(), "/b")
    for ledger_id in (LARGE, SMALL):  # both are known
        world.say(*add(batch(0, [b"first"], ledger_id=ledger_id)))
    world.settle()
    world.answers.clear()
    return world


def put(world: World, ledger_id: int, entry_id: int, size: int) -> bool:
    request, *frames = add(batch(entry_id, [b"x"], ledger_id=ledger_id), request_id=entry_id)
    inbound = Inbound(b"peer", request, tuple(frames), size)
    return world.door.queue.put([inbound], monotonic_us())


def answered(world: World) -> list[int]:
    return [answer.request_id for answer in world.answers if isinstance(answer, AddAnswer)]


def test_a_turn_takes_what_fits_and_the_next_message_the_rest(world: World) -> None:
    for entry_id in range(1, 4):
        put(world, LARGE, entry_id, TURN_SIZE)

    world.tell(RequestsWait())
    world.settle()

    assert answered(world) == [1]
    assert not world.actor.actor_inbox.empty()  # it has told itself to go on
    world.tell(RequestsWait())
    world.tell(RequestsWait())
    world.settle()
    assert answered(world) == [1, 2, 3]


def test_a_large_request_waits_for_a_sync_while_small_ones_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "PACE_SIZE", 1)
    world.say(*add(batch(1, [b"on its way"], ledger_id=SMALL)))
    put(world, LARGE, 11, SMALL_SIZE_MAX + 1)
    put(world, SMALL, 2, 100)

    before_count = len(world.groups)
    world.tell(RequestsWait())

    assert len(world.groups) == before_count + 1  # the small one was served
    world.written()
    assert put(world, SMALL, 3, 100)
    world.tell(RequestsWait())
    assert len(world.groups) == before_count + 2
    world.synced()  # the first two: the large one is served
    assert len(world.groups) == before_count + 2  # not yet: the third is on its way
    world.settle()
    assert len(world.groups) == before_count + 3
    world.settle()
    assert answered(world)[1:] == [2, 3, 11]
    assert not world.progress.is_awaited


def test_a_stop_answers_the_requests_that_wait(world: World) -> None:
    for entry_id in range(1, 4):
        put(world, LARGE, entry_id, TURN_SIZE)
    is_quiet = threading.Event()

    world.tell(Quiesce(is_quiet))
    world.settle()

    assert answered(world) == [1, 2, 3]
    assert is_quiet.is_set()
    world.tell(RequestsWait())  # it was on its way
    assert world.failures == []
