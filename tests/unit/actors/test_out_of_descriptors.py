"""A bookie with too many files open: clients are told that it is busy, and it goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import LEDGER_ID, World, add, batch, read, read_lac, write_lac
from zbk.errors import BusyError
from zbk.protocol.entry.words import LedgerType
from zbk.wire.messages import AddAnswer, GetLedgerInfo, LacAnswer, LedgerInfo, Message, ReadAnswer

KEY = bytes(range(16))
FOREVER = 1 << 30


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def world(disk: SimulatedDisk) -> World:
    """Return a bookie that has a ledger on its disk, and nothing of it in memory."""
    world = World(disk, "", open_files_max=1, ledger_count_max=1, ledger_cache_size=1)
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.checkpoint()
    for ledger_id in (8, 9):
        world.say(*add(batch(0, [b"x"], ledger_id=ledger_id)))
        world.settle()
    world.checkpoint()
    world.answers.clear()
    return world


def info() -> GetLedgerInfo:
    return GetLedgerInfo(request_id=6, ledger_id=LEDGER_ID)


REQUESTS: dict[str, tuple[Callable[[], tuple[Any, ...]], type[Message]]] = {
    "an add to a new ledger": (lambda: add(batch(0, [b"n"], ledger_id=77)), AddAnswer),
    "an add": (lambda: add(batch(1, [b"b"])), AddAnswer),
    "an add that came again": (lambda: add(batch(0, [b"a"])), AddAnswer),
    "a recovery's add": (lambda: add(batch(0, [b"a"]), is_recovery=True), AddAnswer),
    "a read": (lambda: (read(0, 0),), ReadAnswer),
    "a fencing read": (lambda: (read(0, 0, is_fencing=True),), ReadAnswer),
    "a LAC": (lambda: (read_lac(),), LacAnswer),
    "a fencing LAC": (lambda: (read_lac(is_fencing=True),), LacAnswer),
    "a fence of a new ledger": (lambda: (read_lac(ledger_id=77, is_fencing=True),), LacAnswer),
    "an explicit LAC": (lambda: (write_lac(0),), LacAnswer),
    "what is held": (lambda: (info(),), LedgerInfo),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_what_finds_no_descriptor_is_refused_as_busy_and_succeeds_later(
    request_name: str, world: World, disk: SimulatedDisk
) -> None:
    make, answer_type = REQUESTS[request_name]
    disk.without_descriptor = range(disk.descriptor_count + 1, FOREVER)
    world.say(*make())
    world.settle()
    assert world.last_error() is BusyError
    assert not world.space.is_readonly
    assert world.failures == []

    disk.without_descriptor = range(0)
    world.say(*make())
    world.settle()
    assert isinstance(world.answers[-1], answer_type)
    assert world.failures == []


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_same_at_every_single_open_leaves_the_answer_or_the_refusal(
    request_name: str, world: World, disk: SimulatedDisk
) -> None:
    make, answer_type = REQUESTS[request_name]
    for skip_count in range(6):
        at = disk.descriptor_count + 1 + skip_count
        disk.without_descriptor = range(at, at + 1)
        world.say(*make())
        world.settle()
        assert isinstance(world.answers[-1], answer_type) or world.last_error() is BusyError
        assert world.failures == []


def test_a_roll_of_the_entry_log_that_finds_none_refuses_the_adds_and_comes_later(
    disk: SimulatedDisk,
) -> None:
    world = World(disk, "", log_size_max=2_000)
    for number in range(10):
        disk.without_descriptor = (
            range(disk.descriptor_count + 1, FOREVER) if number % 2 else range(0)
        )
        world.say(*add(batch(0, [b"." * 900], ledger_id=1 + number // 2)))
        world.settle()
    assert world.failures == []
    disk.without_descriptor = range(0)
    world.say(*add(batch(0, [b"." * 900], ledger_id=50), kind=LedgerType.VD_JOURNAL))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)
    world.checkpoint()
