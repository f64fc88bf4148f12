"""Bypass ledgers with entry logs of their own: syncs, crashes at each step, and their deletion."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, World, add, batch
from tests.support.storage_actor import held as held_with
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.lost_files import look
from zbk.storage.entry_logs.entry_log import log_ids
from zbk.storage.entry_logs.own_logs import OwnLogLimits
from zbk.storage.gc.garbage import DropIndexes
from zbk.wire.messages import AddAnswer, Sync, SyncAnswer

BYPASS = LedgerType.VD_BYPASS_JOURNAL
OWN = OwnLogLimits("bypass", 2, 150)
LOGS = "/b/ledgers/logs"


def bookie(disk: SimulatedDisk, own_logs: OwnLogLimits = OWN) -> World:
    return World(disk, "/b", segment_size=1 << 16, log_size_max=1_500, own_logs=own_logs)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def payload(ledger_id: int, entry_id: int) -> bytes:
    return b"<%d:%03d>" % (ledger_id, entry_id)


def add_some(
    world: World, ledger_id: int, first: int, count: int, kind: LedgerType = BYPASS
) -> None:
    payloads = [payload(ledger_id, number) for number in range(first, first + count)]
    world.say(*add(batch(first, payloads, ledger_id=ledger_id), kind=kind))
    world.written()


def sync(world: World, ledger_id: int) -> None:
    world.say(Sync(request_id=ledger_id, ledger_id=ledger_id, ledger_key=KEY, lac=-1))


def settle(world: World) -> None:
    world.sync_logs()
    world.settle_journal()


def unsynced(world: World) -> dict[int, int]:
    return {one.ledger_id: one.entry_count for one in world.actor.unsynced(0)}


def held(storage: BookieStorage, ledger_id: int) -> list[tuple[int, int]]:
    return held_with(storage, ledger_id, partial(payload, ledger_id))


# ------------------------------------------------------------------ syncs


def test_a_sync_of_a_ledger_with_an_own_log_is_none_of_others(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for ledger_id, count in ((1, 5), (2, 5), (3, 1)):
        add_some(world, ledger_id, 0, count)

    sync(world, 1)
    settle(world)

    assert unsynced(world) == {2: 5, 3: 1}
    assert [type(one) for one in world.answers[-1:]] == [SyncAnswer]


def test_a_sync_of_a_ledger_in_the_shared_log_is_one_of_all_in_there(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for ledger_id, count in ((1, 5), (2, 1), (3, 1)):
        add_some(world, ledger_id, 0, count)

    sync(world, 3)
    settle(world)

    assert unsynced(world) == {1: 5}


def test_a_ledger_that_moved_to_its_own_log_is_synced_in_both(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 1, 0, 1)
    add_some(world, 2, 0, 1)
    add_some(world, 1, 1, 5)
    assert len(log_ids(disk, LOGS)) == 2

    sync(world, 2)
    settle(world)
    assert unsynced(world) == {1: 6}, "a part of it is in its own log"
    sync(world, 1)
    settle(world)

    assert unsynced(world) == {}
    disk.crash(Random(1))
    assert held(bookie(disk).storage, 1) == [(0, 5)]


def test_what_comes_during_a_sync_waits_for_the_next_one(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 1, 0, 5)
    add_some(world, 2, 0, 5)
    sync(world, 1)
    add_some(world, 1, 5, 2)
    sync(world, 2)
    assert len(world.log_syncs) == 1

    settle(world)
    assert unsynced(world) == {1: 2, 2: 5}
    settle(world)

    assert unsynced(world) == {1: 2}


def test_a_checkpoint_makes_all_of_them_durable(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for ledger_id, count in ((1, 5), (2, 5), (3, 1)):
        add_some(world, ledger_id, 0, count)

    world.synced()

    assert unsynced(world) == {}


# ------------------------------------------------------------------ crashes

Call = Callable[[], object]


def life_of_ledgers(disk: SimulatedDisk) -> tuple[World, Call]:
    """Return a bookie that waits, and a life with all that happens to own logs."""
    world = bookie(disk)

    def live() -> None:
        add_some(world, 1, 0, 1)  # in the shared log
        add_some(world, 1, 1, 4)  # in its own
        add_some(world, 2, 0, 4)
        sync(world, 1)
        settle(world)
        add_some(world, 3, 0, 4)  # takes the place of ledger 1
        add_some(world, 1, 5, 2)  # in the shared log again
        add_some(world, 9, 0, 2, LedgerType.PD_JOURNAL)
        world.checkpoint()
        for first in range(4, 24, 4):  # rolls its own log
            add_some(world, 2, first, 4)
        sync(world, 2)
        sync(world, 1)
        settle(world)
        add_some(world, 3, 4, 2)
        world.checkpoint()

    return world, live


def promised(world: World) -> dict[int, int]:
    """Return the last entry of each ledger that a sync has answered for."""
    cursors: dict[int, int] = {}
    for one in world.answers:
        if isinstance(one, SyncAnswer):
            cursors[one.request_id] = max(cursors.get(one.request_id, -1), one.last_add_synced)
    return cursors


def test_a_loss_of_power_at_each_step_takes_nothing_that_a_sync_answered() -> None:
    worlds: list[World] = []
    tried: set[object] = set()
    promise_count = 0

    def prepare(disk: SimulatedDisk) -> Call:
        world, live = life_of_ledgers(disk)
        worlds.append(world)
        return live

    for disk, step in crashed_at_each_step(prepare):
        cursors = promised(worlds[-1])
        for after in power_cuts(disk, Random(step), 4):
            case = (after.state(), *cursors.items())
            if case in tried:
                continue
            tried.add(case)
            assert not look(after, "/b/ledgers", b"b-test").is_any
            storage = bookie(after).storage
            assert not storage.limbo.limbo.losses, "a cut is no loss of files"
            ranges = {ledger_id: held(storage, ledger_id) for ledger_id in (1, 2, 3)}
            for ledger_id, last in cursors.items():
                promise_count += 1
                assert ranges[ledger_id][0][0] == 0
                assert ranges[ledger_id][0][1] >= last, f"step {step}, ledger {ledger_id}"
            after.crash(Random(step))
            again = bookie(after).storage
            assert {one: held(again, one) for one in ranges} == ranges, "what was found stays"
    assert promise_count > 100


def test_a_killed_process_loses_nothing_that_was_acknowledged() -> None:
    worlds: list[World] = []

    def prepare(disk: SimulatedDisk) -> Call:
        world, live = life_of_ledgers(disk)
        worlds.append(world)
        return live

    for disk, step in crashed_at_each_step(prepare):
        acknowledged = sum(isinstance(one, AddAnswer) for one in worlds[-1].answers)
        disk.process_crash()
        storage = bookie(disk).storage
        batch_count = sum(bool(held(storage, one)) for one in (1, 2, 3))
        assert batch_count >= min(acknowledged, 1), f"step {step}"
        assert not storage.limbo.limbo.losses


def test_a_start_knows_how_long_own_logs_were(disk: SimulatedDisk) -> None:
    """Also those of before an earlier start: the census has their last sizes."""
    world = bookie(disk)
    add_some(world, 1, 0, 5)
    world.checkpoint()
    add_some(world, 1, 5, 3)
    disk.process_crash()
    again = bookie(disk)
    assert held(again.storage, 1) == [(0, 7)]
    again.storage.close()
    (path,) = disk.paths(LOGS)
    disk.set_content(path, disk.content(path)[:-30])

    (lost,) = look(disk, "/b/ledgers", b"b-test").logs

    assert lost.path == path


# ------------------------------------------------------------------ deletion


def deleted(world: World, *ledger_ids: int) -> None:
    storage = world.storage
    assert storage.mark_deleted(ledger_ids)
    assert storage.garbages[0].deleted.write()
    assert DropIndexes(storage.garbages, ledger_ids).answer() == len(ledger_ids)


def removed(world: World) -> list[int]:
    (garbage,) = world.storage.garbages
    return sorted(garbage.remove_dead(garbage.left_logs()))


def test_the_own_log_of_a_deleted_ledger_goes_at_once(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for ledger_id, count in ((1, 5), (2, 5), (3, 1)):
        add_some(world, ledger_id, 0, count)
    own = world.storage.directories[0].logs.own_log_of(1)
    begun = world.storage.begin_checkpoint()  # it has the log, and ends after it is gone

    deleted(world, 1)
    assert removed(world) == [own]
    begun.run()
    world.storage.end_checkpoint(begun)

    assert held(world.storage, 2) == [(0, 4)]
    disk.crash(Random(5))
    assert not look(disk, "/b/ledgers", b"b-test").is_any
    assert held(bookie(disk).storage, 2) == [(0, 4)]


def test_no_log_goes_that_a_ledger_writes_to(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for ledger_id in (1, 2):
        add_some(world, ledger_id, 0, 5)
    add_some(world, 9, 0, 1, LedgerType.PD_JOURNAL)
    world.checkpoint()
    (garbage,) = world.storage.garbages
    assert garbage.left_logs() == [], "three logs are open"

    deleted(world, 1)

    assert len(removed(world)) == 1
    add_some(world, 2, 5, 3)
    assert held(world.storage, 2) == [(0, 7)]


def test_many_deleted_ledgers_free_their_space_in_one_round_without_a_copy(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    for ledger_id in range(1, 40):
        add_some(world, ledger_id, 0, 6)
        sync(world, ledger_id)
        settle(world)
        world.storage.sync_logs_ahead()  # as the preparer does
    world.checkpoint()
    assert len(log_ids(disk, LOGS)) == 39

    deleted(world, *range(1, 40))

    assert len(removed(world)) == 39
    assert log_ids(disk, LOGS) == []
