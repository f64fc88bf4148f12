"""Ledgers that bypass the journal in one turn with others, or with a failure: what stays true."""

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.support.killed_bookie import BYPASS, OWN_LOGS, bookie
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, World, add, batch, held
from zbk.actors.messages import EndCheckpoint
from zbk.actors.serve.log_syncs import LogsSynced
from zbk.errors import BusyError, CorruptRecordError, from_wire
from zbk.protocol.entry.words import NO_ENTRY
from zbk.wire.messages import Refused, Sync, SyncAnswer

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


def some(ledger_id: int, first: int, count: int, lac: int = NO_ENTRY) -> tuple[Any, ...]:
    payloads = [payload(number) for number in range(first, first + count)]
    return add(batch(first, payloads, ledger_id=ledger_id, lac=lac), kind=BYPASS, lac=lac)


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


# ------------------------------------------------------------------ headers that cannot be read


def bookie_with_few_headers(disk: SimulatedDisk) -> World:
    """Return a bookie whose checkpoint has ended, so that headers of un-synced ledgers may go."""
    world = World(
        disk, "/b", segment_size=1 << 16, own_logs=OWN_LOGS, ledger_count_max=4, open_files_max=2
    )
    for ledger_id in range(1, 9):
        world.say(*some(ledger_id, 0, 3, lac=1))
    world.settle_journal()
    begun = world.storage.begin_checkpoint()
    begun.run()
    world.tell(EndCheckpoint(begun))
    cache = world.storage.directories[0].cache
    cache.make_room()  # as any request does
    assert 1 not in cache.headers
    world.say(sync(1))
    return world


def damage_index_of_1(world: World, disk: SimulatedDisk) -> None:
    path = next(one for one in disk.paths("/index/") if one.endswith("1.idx"))
    disk.flip_bit(path, 8 * 100)
    world.storage.open_files.forget(path)


def lack_descriptors(disk: SimulatedDisk) -> None:
    disk.without_descriptor = range(disk.descriptor_count + 1, disk.descriptor_count + 100)


def test_a_log_sync_without_a_descriptor_for_a_header_is_repeated(disk: SimulatedDisk) -> None:
    world = bookie_with_few_headers(disk)
    (asked,), world.log_syncs = world.log_syncs, []
    asked.sync.run()
    lack_descriptors(disk)

    world.tell(LogsSynced(asked.directory_no))

    assert world.failures == []
    assert world.last_error() is BusyError
    assert 1 in {one.ledger_id for one in world.actor.unsynced(0)}
    world.settle_journal()
    assert cursors(world) == []
    disk.without_descriptor = range(0)
    world.say(sync(1))
    world.sync_logs()
    world.settle_journal()
    assert cursors(world) == [2]
    assert world.actor.unsynced(0) == []


def test_a_damaged_header_costs_a_log_sync_its_ledger_only(disk: SimulatedDisk) -> None:
    world = bookie_with_few_headers(disk)
    world.say(sync(2))
    damage_index_of_1(world, disk)

    world.sync_logs()
    world.settle_journal()
    world.sync_logs()  # of what was said after the first began
    world.settle_journal()

    assert world.failures == []
    refused = [one for one in world.answers if isinstance(one, Refused)]
    assert [from_wire(one.code, tuple(one.fields)).__class__ for one in refused] == [
        CorruptRecordError
    ]
    assert cursors(world) == [2]
    assert {one.ledger_id for one in world.actor.unsynced(0)} == {1}


@pytest.mark.parametrize("lack", ["damage", "descriptors"])
def test_a_checkpoint_leaves_out_a_cursor_whose_header_cannot_be_read(
    disk: SimulatedDisk, lack: str
) -> None:
    world = bookie_with_few_headers(disk)
    world.sync_logs()
    world.settle_journal()
    world.checkpoint()
    world.storage.directories[0].cache.make_room()
    if lack == "damage":
        damage_index_of_1(world, disk)
    else:
        lack_descriptors(disk)

    world.actor._ledgers.keep_cursors()
    disk.without_descriptor = range(0)
    world.actor._ledgers.keep_cursors()

    cursor_of = world.storage.directories[0].cache.info
    assert [info.last_add_synced for one in (2, 3) if (info := cursor_of(one))] == [2, 2]
