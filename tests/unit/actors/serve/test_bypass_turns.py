"""Ledgers that bypass the journal in one turn with others, or with a failure: what stays true."""

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.support.killed_bookie import BYPASS, OWN_LOGS, bookie
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, World, add, batch, held
from zbk.wire.messages import Sync, SyncAnswer

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

T = TypeVar("T")


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_dirs("/b/ledgers")
    return made


def payload(number: int) -> bytes:
    return b"<%03d>" % number


def some(ledger_id: int, first: int, count: int) -> tuple[Any, ...]:
    payloads = [payload(number) for number in range(first, first + count)]
    return add(batch(first, payloads, ledger_id=ledger_id), kind=BYPASS)


def sync(ledger_id: int) -> Sync:
    return Sync(request_id=9, ledger_id=ledger_id, ledger_key=KEY, lac=-1)


def cursors(world: World) -> list[int]:
    return [one.last_add_synced for one in world.answers if isinstance(one, SyncAnswer)]


class LosesAll(Random):
    """A loss of power that takes all that no fsync has covered."""

    def choice(self, seq: "SupportsLenAndGetItem[T]") -> T:
        return seq[0]


def table_of_two(disk: SimulatedDisk) -> World:
    """Return a bookie whose table is full of un-synced ledgers; 1 and 5 are synced, and not in it.

    Only the table is small: the index keeps its headers.
    """
    world = World(disk, "/b", segment_size=1 << 16, log_size_max=40_000, own_logs=OWN_LOGS)
    world.actor._ledgers._count_max = 2
    for ledger_id, count in ((1, 3), (5, 1)):
        world.say(*some(ledger_id, 0, count))
    world.written()
    world.synced()
    for ledger_id in (2, 3):
        world.say(*some(ledger_id, 0, 1))
    world.written()
    world.synced_journal()
    return world


def test_a_ledger_stays_in_the_table_in_the_turn_that_adds_to_it(disk: SimulatedDisk) -> None:
    world = table_of_two(disk)
    world.say_together(some(1, 3, 3), some(5, 1, 1))  # the second loads a ledger
    world.written()

    world.say(sync(1))
    world.written()
    world.synced_journal()
    assert cursors(world) == [], "no fsync covers the entry log"
    world.sync_logs()
    world.settle_journal()
    assert cursors(world) == [5]

    disk.crash(LosesAll())
    assert held(bookie(disk).storage, 1, payload) == [(0, 5)]


def test_a_sync_covers_the_add_before_it_in_its_turn(disk: SimulatedDisk) -> None:
    world = table_of_two(disk)

    world.say_together(some(1, 3, 3), (sync(1),))
    world.settle_journal()
    assert cursors(world) == []
    world.sync_logs()
    world.settle_journal()

    assert cursors(world) == [5]
