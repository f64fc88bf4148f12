"""The acknowledged entries of a bookie that are not on stable storage, by ledger."""

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, batch, write_lac
from zbk.actors.serve.unsynced_ledgers import UnsyncedLedger, largest, unsynced_ledgers
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import EntriesRecord

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL


def size_of(world: World, ledger_id: int) -> int:
    records = [one for group in world.groups for one in group.records]
    return sum(
        one.size
        for one in records
        if isinstance(one, EntriesRecord) and one.batch.ledger_id == ledger_id
    )


def test_only_entries_that_are_acknowledged_before_their_fsync_count() -> None:
    world = World(SimulatedDisk(), "/b")
    world.say_together(
        add(batch(0, [b"pd"], ledger_id=1), kind=PD),
        add(batch(0, [b"a", b"b"], ledger_id=2), kind=VD),
        add(batch(2, [b"c"], ledger_id=2), kind=VD, request_id=2),
        add(batch(0, [b"copy"], ledger_id=3), kind=VD, is_recovery=True),
    )
    world.say(write_lac(1, ledger_id=2, kind=VD))
    world.say(*add(batch(0, [b"x" * 50], ledger_id=4), kind=VD))
    at_us = world.groups[0].handed_us

    found = unsynced_ledgers(world.groups, at_us + 7_000)

    assert [one.ledger_id for one in found] == [2, 4]
    assert found[0] == UnsyncedLedger(
        ledger_id=2, unsynced_size=size_of(world, 2), entry_count=3, age_ms=7
    )
    assert found[1].entry_count == 1


def test_the_age_is_that_of_the_oldest_entry() -> None:
    world = World(SimulatedDisk(), "/b")
    for first in range(3):
        world.say(*add(batch(first, [b"x"]), kind=VD))
    now_us = world.groups[0].handed_us + 60_000_000
    assert [one.age_ms for one in unsynced_ledgers(world.groups, now_us)] == [60_000]
    assert unsynced_ledgers([], now_us) == []


def test_the_largest_are_first_by_either_order() -> None:
    ledgers = [
        UnsyncedLedger(ledger_id=n, unsynced_size=size, entry_count=1, age_ms=age)
        for n, (size, age) in enumerate([(5, 100), (50, 1), (5, 200), (50, 1)])
    ]
    assert [one.ledger_id for one in largest(ledgers, "size")] == [1, 3, 2, 0]
    assert [one.ledger_id for one in largest(ledgers, "age")] == [2, 0, 1, 3]
    assert [one.ledger_id for one in largest(ledgers, "size", 1)] == [1]
