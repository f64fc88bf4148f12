"""The first add of a ledger that bypasses the journal is refused: nothing shows entries of it."""

import errno
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.killed_bookie import (
    BYPASS,
    LOGS,
    OTHER,
    OWN_SIZE,
    PD,
    YOUNG,
    add_large,
    add_some,
    bookie,
    in_doubt,
    killed,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import LEDGER_ID, World, add, batch, held, write_lac
from zbk.errors import (
    BookieReadOnlyError,
    BusyError,
    CorruptRecordError,
    OutOfDescriptorsError,
)
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    JournalRecord,
    LedgerKeyRecord,
)
from zbk.wire.messages import AddAnswer, LacAnswer


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_dirs("/b/ledgers")
    return made


def payload(number: int) -> bytes:
    return b"<%03d>" % number


def large(ledger_id: int) -> tuple[Any, ...]:
    return add(batch(0, [b"L" * OWN_SIZE], ledger_id=ledger_id), kind=BYPASS)


def refuse_one_log(world: World, lack: str = "a descriptor") -> None:
    """The creation of the next log fails, without a trace."""
    logs = world.storage.directories[0].logs
    note = logs.on_made

    def refuse(_log_id: int, _ledger_id: int) -> None:
        logs.on_made = note
        if lack == "space":
            raise OSError(errno.ENOSPC, "full")
        raise OutOfDescriptorsError(LOGS, "open", "24")

    logs.on_made = refuse


def records(world: World) -> Sequence[JournalRecord]:
    return [one for group in world.groups for one in group.records]


def keyed(world: World) -> list[int]:
    return [one.ledger_id for one in records(world) if isinstance(one, LedgerKeyRecord)]


@pytest.mark.parametrize("lack", ["space", "a descriptor"])
def test_a_ledger_whose_first_add_was_refused_shows_no_loss_to_a_start(
    disk: SimulatedDisk, lack: str
) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    refuse_one_log(world, lack)
    add_large(world, 0, YOUNG)
    assert world.last_error() is (BookieReadOnlyError if lack == "space" else BusyError)
    assert keyed(world) == [LEDGER_ID]

    world = killed(disk, [])

    assert in_doubt(world) == set()
    add_some(world, 3, 1)
    assert isinstance(world.answers[-1], AddAnswer)


def test_the_refusal_of_an_add_reads_a_header_that_is_damaged_by_then(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has left the memory since the add was prepared. No entry is lost, so nothing stops."""
    world = bookie(disk)
    add_some(world, 0, 3)
    logs = world.storage.directories[0].logs
    note = logs.on_made

    def fail(_index: IndexHandle) -> int:
        raise CorruptRecordError("/b/ledgers/0.idx", 0, "its checksum is wrong")

    def refuse(_log_id: int, _ledger_id: int) -> None:
        logs.on_made = note
        monkeypatch.setattr(IndexHandle, "last_entry_id", property(fail))
        raise OutOfDescriptorsError(LOGS, "open", "24")

    logs.on_made = refuse
    add_large(world, 0, YOUNG)
    monkeypatch.undo()
    assert world.last_error() is BusyError

    add_some(world, 0, 2, ledger_id=YOUNG)

    assert isinstance(world.answers[-1], AddAnswer)
    assert held(killed(disk, []).storage, YOUNG, payload) == [(0, 1)]


def test_the_key_follows_the_first_entry_that_is_stored(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    refuse_one_log(world)
    add_large(world, 0, YOUNG)
    assert keyed(world) == []

    add_some(world, 0, 2, ledger_id=YOUNG)
    add_some(world, 2, 2, ledger_id=YOUNG)

    assert keyed(world) == [YOUNG]
    assert held(killed(disk, []).storage, YOUNG, payload) == [(0, 3)]


def test_the_key_of_a_ledger_that_left_the_table_is_not_forgotten(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    world.actor._ledgers._count_max = 1
    refuse_one_log(world)
    add_large(world, 0, YOUNG)
    add_some(world, 0, 1, ledger_id=OTHER, kind=PD)
    world.synced_journal()
    assert YOUNG not in world.actor._ledgers._slots

    add_some(world, 0, 2, ledger_id=YOUNG)

    assert keyed(world) == [OTHER, YOUNG]
    assert held(killed(disk, []).storage, YOUNG, payload) == [(0, 1)]


def test_a_lac_brings_the_key_with_it(disk: SimulatedDisk) -> None:
    """Also before the add is refused, in its turn."""
    world = bookie(disk)
    refuse_one_log(world)
    world.say_together(large(YOUNG), (write_lac(4, ledger_id=YOUNG, kind=BYPASS),))
    world.settle_journal()

    assert isinstance(world.answers[-1], LacAnswer)
    key, lac = records(world)
    assert isinstance(key, LedgerKeyRecord)
    assert isinstance(lac, ExplicitLacRecord)
    world = killed(disk, [])
    assert in_doubt(world) == set()
    info = world.storage.homes.info(YOUNG)
    assert info is not None
    assert info.explicit_lac == 4


def test_the_key_comes_before_the_entries_of_a_recovery(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    world.say(*add(batch(0, [payload(0)], ledger_id=YOUNG), kind=BYPASS, is_recovery=True))
    world.settle_journal()

    key, entries = records(world)
    assert isinstance(key, LedgerKeyRecord)
    assert isinstance(entries, EntriesRecord)
