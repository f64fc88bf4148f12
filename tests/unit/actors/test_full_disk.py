"""A storage actor without space refuses adds, and serves reads, fences and recoveries."""

import pytest

from tests.support.full_bookie import full_bookie, world_after_power_loss
from tests.support.storage_actor import LEDGER_ID, add, batch, read, read_lac, write_lac
from zbk.errors import BookieReadOnlyError, LedgerFencedError, NoSuchEntryError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.disk_space import FENCE_ROOM_SIZE
from zbk.storage.journal.spares import SMALL_SEGMENT_SIZE
from zbk.wire.messages import AddAnswer, LacAnswer, ReadAnswer, Refused

VD = LedgerType.VD_JOURNAL


def test_an_add_without_space_is_refused_and_leaves_nothing_behind() -> None:
    world, disk = full_bookie()
    world.say(*add(batch(1, [b"b"], lac=0), lac=0))
    world.settle()

    assert world.last_error() is BookieReadOnlyError
    assert world.space.is_readonly
    world.say(read(1, 1))
    assert world.last_error() is NoSuchEntryError
    world.say(read(0, 0))
    world.fetched()
    assert isinstance(world.answers[-1], ReadAnswer)
    assert world.actor.counts.batch_count == 1
    assert world.failures == []

    disk.capacity = None
    world.space.is_readonly = False
    world.say(*add(batch(1, [b"b"], lac=0), lac=0))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer), "the same add, later"


def test_all_ordinary_adds_of_a_turn_are_refused_and_its_recovery_adds_are_stored() -> None:
    world, _disk = full_bookie(left_size=20)
    world.say_together(
        add(batch(1, [b"b"]), request_id=1),
        add(batch(0, [b"r"], ledger_id=8), request_id=2, is_recovery=True),
        add(batch(0, [b"v"], ledger_id=9), kind=VD, request_id=3),
    )
    world.settle()

    refused = {a.request_id for a in world.answers if isinstance(a, Refused)}
    assert refused == {1, 3}
    assert [a.request_id for a in world.answers if isinstance(a, AddAnswer)] == [2]
    world.say(read(0, 0, ledger_id=8))
    world.fetched()
    assert isinstance(world.answers[-1], ReadAnswer)


def test_the_lac_of_an_add_that_was_refused_is_not_told_as_durable() -> None:
    world, disk = full_bookie()
    world.say_together(add(batch(1, [b"b"], lac=0), lac=0), (read_lac(is_fencing=True),))
    world.settle()
    assert [type(a) for a in world.answers] == [Refused, LacAnswer]

    before = world.answers[-1]
    world.say(read_lac())
    told = world.answers[-1]
    assert isinstance(told, LacAnswer)
    world = world_after_power_loss(disk)
    world.say(read_lac())
    answer = world.answers[-1]
    assert isinstance(answer, LacAnswer)
    assert answer.lac >= told.lac
    assert isinstance(before, LacAnswer)


def test_a_read_only_bookie_serves_reads_fences_lacs_and_recoveries() -> None:
    """B8: fences need no room in entry log or index, only in the journal."""
    world, disk = full_bookie()
    world.space.is_readonly = True
    world.say(*add(batch(1, [b"b"])))
    assert world.last_error() is BookieReadOnlyError
    world.say(*add(batch(0, [b"b"], ledger_id=8)))
    assert world.last_error() is BookieReadOnlyError
    world.say(write_lac(0))
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer)
    world.say(read_lac(is_fencing=True))
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer)
    world.say(*add(batch(1, [b"r"]), is_recovery=True))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)
    world.say(read_lac(ledger_id=99, is_fencing=True))
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer), "also of a ledger that it has never seen"

    disk.capacity = None
    for ledger_id in (LEDGER_ID, 99):
        world = world_after_power_loss(disk)
        world.say(*add(batch(7, [b"late"], ledger_id=ledger_id)))
        assert world.last_error() is LedgerFencedError


def test_the_writer_of_a_fenced_ledger_is_told_so_and_not_sent_to_another_bookie() -> None:
    world, _disk = full_bookie()
    world.say(read_lac(is_fencing=True))
    world.settle()
    world.space.is_readonly = True
    world.say(*add(batch(1, [b"b"])))
    assert world.last_error() is LedgerFencedError


@pytest.mark.parametrize(
    "left_size",
    [
        pytest.param(100_000, id="the entry log finds no space"),
        pytest.param(SMALL_SEGMENT_SIZE - 1, id="the journal has no room for another segment"),
    ],
)
def test_recoveries_are_refused_before_fences_when_the_reserve_is_used_up(left_size: int) -> None:
    world, disk = full_bookie()
    world.space.is_readonly = True
    for reserve in world.storage.reserves:
        reserve.release()
    disk.capacity = disk.used_size + left_size  # somebody else has taken the rest
    number = 0
    while True:
        number += 1
        world.say(*add(batch(number, [b"." * 1_000]), is_recovery=True))
        world.settle()
        if not isinstance(world.answers[-1], AddAnswer):
            break
    assert number > 50, "there was room for some"
    assert world.last_error() is BookieReadOnlyError
    assert world.storage.journals.room_size >= FENCE_ROOM_SIZE
    for ledger_id in range(100, 300):
        world.say(read_lac(ledger_id=ledger_id, is_fencing=True))
        world.settle()
        assert isinstance(world.answers[-1], LacAnswer)
    assert world.failures == []


@pytest.mark.parametrize("step", [1, -1], ids=["ascending", "descending"])
def test_recoveries_of_one_turn_leave_room_for_fences_together(step: int) -> None:
    world, disk = full_bookie()
    world.space.is_readonly = True
    for reserve in world.storage.reserves:
        reserve.release()
    disk.capacity = disk.used_size + SMALL_SEGMENT_SIZE - 1
    entry_ids = range(1, 1 + 900)[::step]

    world.say_together(
        *(add(batch(n, [b"." * 1_000]), request_id=n, is_recovery=True) for n in entry_ids)
    )
    world.settle()

    taken = [a.request_id for a in world.answers if isinstance(a, AddAnswer)]
    refused = [a.request_id for a in world.answers if isinstance(a, Refused)]
    assert len(taken) > 100
    assert sorted(taken + refused) == sorted(entry_ids)
    assert world.storage.journals.room_size >= FENCE_ROOM_SIZE
