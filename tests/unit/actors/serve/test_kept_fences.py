"""A fence that was answered stays, whatever happens to the bookie."""

import errno
from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from tests.support.fences import FENCED, bookie, error_of, fence, forgetful, is_fenced
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from tests.support.storage_actor import World, add, batch, read
from zbk.errors import LedgerFencedError, StorageFailedError
from zbk.wire.messages import LacAnswer, Message, Refused


def restarted(_world: World, disk: SimulatedDisk) -> World:
    return bookie(disk.crash(Random(1)))


def killed(_world: World, disk: SimulatedDisk) -> World:
    return bookie(disk.process_crash())


def checkpointed_and_restarted(world: World, disk: SimulatedDisk) -> World:
    world.checkpoint()
    for ledger_id in range(20, 24):  # roll the journal: the segment with the fence goes
        body = batch(0, [bytes(1_000)] * 5, ledger_id=ledger_id)
        world.say(*add(body))
        world.settle()
    world.checkpoint()
    world.checkpoint()
    return bookie(disk.crash(Random(2)))


def evicted(world: World, _disk: SimulatedDisk) -> World:
    """Forget it everywhere: table, index headers, file handles, each with a limit of one."""
    world.checkpoint()
    for ledger_id in range(30, 34):
        world.say(*add(batch(0, [b"x"], ledger_id=ledger_id)))
        world.settle()
        world.checkpoint()
    return world


@pytest.mark.parametrize("is_unknown", [False, True], ids=["a known ledger", "an unknown ledger"])
@pytest.mark.parametrize("then", [restarted, killed, checkpointed_and_restarted, evicted])
def test_a_fence_that_was_answered_stays(
    then: Callable[[World, SimulatedDisk], World], is_unknown: bool
) -> None:
    """B8: BOOKKEEPER-500, lost at a restart; BOOKKEEPER-815, lost when the handle is evicted."""
    disk = SimulatedDisk()
    world = forgetful(disk)
    if not is_unknown:
        world.say(*add(batch(0, [b"a"])))
    world.say(fence())
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer)

    assert is_fenced(then(world, disk))


def test_a_fence_that_cannot_be_written_is_not_answered_and_nothing_goes_on() -> None:
    """B8: a bad disk. Success is only what is journaled; the bookie stops."""
    disk = SimulatedDisk()
    world = bookie(disk)
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.answers.clear()
    disk.faults.append(Fault("pwrite", errno.EIO, path_part="journal"))

    world.say(fence())
    with pytest.raises(StorageFailedError):
        world.written()
    assert world.answers == []
    world.say(*add(batch(0, [b"b"], ledger_id=8)))

    assert world.answers == []
    assert [type(failure) for failure in world.failures] == [StorageFailedError]


def test_a_fence_that_cannot_be_synced_is_not_answered() -> None:
    disk = SimulatedDisk()
    world = bookie(disk)
    disk.faults.append(Fault("sync", errno.EIO, path_part="journal"))

    world.say(read(0, 0, is_fencing=True))
    world.written()
    with pytest.raises(StorageFailedError):
        world.synced()

    assert world.answers == []


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "power lost"])
def test_whatever_step_is_the_last_a_fence_that_was_answered_is_there(is_killed: bool) -> None:
    """B8: at every operation of the disk, from before the fence to behind the checkpoints."""
    step, has_ended = 0, False
    fenced_count = 0
    while not has_ended:
        step += 1
        disk = SimulatedDisk()
        disk.crash_at = step
        answers: list[Message] = []
        try:
            world = bookie(disk)
            answers = world.answers
            world.say(*add(batch(0, [b"a"])))
            world.settle()
            world.checkpoint()
            world.say(fence())
            world.settle()
            world.checkpoint()
            world.say(*add(batch(1, [b"recovered"]), is_recovery=True))
            world.settle()
            world.checkpoint()
            has_ended = True
        except SimulatedCrash:
            pass
        ids = [answer.request_id for answer in answers]
        after = bookie(disk.process_crash() if is_killed else disk.crash(Random(step)))
        if FENCED in ids:
            fenced_count += 1
            assert is_fenced(after)
    assert fenced_count > 20


def test_after_a_fence_was_answered_no_add_succeeds_whatever_comes_between() -> None:
    """B17: 10,000 rounds of first add, fence, sync, power loss and forgetting, in any order."""
    rng = Random(17)
    disk = SimulatedDisk()
    world = forgetful(disk)
    taken: set[int] = set()  # fences
    answered: set[int] = set()
    acked_count = refused_count = crash_count = 0
    for number in range(1, 10_001):
        ledger_id = number // 40 * 3 + rng.randrange(6)
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                world.say(*add(batch(number, [b"an entry"], ledger_id=ledger_id)))
                last = world.answers[-1] if world.answers else None
                is_refused = isinstance(last, Refused) and error_of(last) is LedgerFencedError
                assert is_refused == (ledger_id in taken)
                refused_count += is_refused
                acked_count += not is_refused
            case 4:
                taken.add(ledger_id)
                request_id = FENCED + ledger_id
                if rng.random() < 0.5:
                    request = read(3, 3, is_fencing=True, ledger_id=ledger_id)
                    world.say(replace(request, request_id=request_id))
                else:
                    world.say(replace(fence(ledger_id=ledger_id), request_id=request_id))
            case 5:
                world.written()
            case 6:
                world.synced()
            case 7 if rng.random() < 0.3:
                world.settle()
            case 8 if rng.random() < 0.05:
                world.checkpoint()
            case 9 if rng.random() < 0.05:
                crash_count += 1
                world = forgetful(disk.crash(Random(number)))
                taken = {one for one in taken if one in answered or _is_fenced_on_disk(world, one)}
        world.fetched()
        answered |= {a.request_id - FENCED for a in world.answers if a.request_id >= FENCED}
        world.answers.clear()
    assert acked_count > 1_000
    assert refused_count > 500
    assert crash_count > 20


def _is_fenced_on_disk(world: World, ledger_id: int) -> bool:
    info = world.storage.homes.info(ledger_id)
    return info is not None and info.is_fenced
