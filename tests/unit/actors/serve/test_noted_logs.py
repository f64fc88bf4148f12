"""New entry logs stay noted, whatever ends a start, and their damage is as bad as their loss."""

import errno
from random import Random

import pytest

from tests.support.killed_bookie import (
    BYPASS,
    JOURNALED,
    LOGS,
    PD,
    YOUNG,
    add_some,
    bookie,
    in_doubt,
    killed,
)
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from tests.support.storage_actor import LEDGER_ID, World, add, batch, held
from zbk.actors.identity.losses import Losses
from zbk.durability.limbo import LossReason
from zbk.errors import NoSpaceError
from zbk.storage import bookie_storage
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.ledger_directory import LedgerDirectory

LEDGERS = "/b/ledgers"
NOTE = f"{LEDGERS}/new_logs"


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_dirs(LEDGERS)
    return made


def limbo_on(disk: SimulatedDisk) -> LimboFile:
    return LimboFile(disk, LEDGERS, bookie_id="b-test", fail_stop=FailStop())


def losses_found(disk: SimulatedDisk, boot_id: str = "boot-1") -> Losses:
    """Do what a start does before it opens storage."""
    losses = Losses(disk, limbo_on(disk), [LEDGERS], boot_id)
    losses.find(lambda: 20, is_wiped_on_purpose=False)
    losses.find_lost_files(b"b-test", lambda: 20)
    losses.begin_serving()
    return losses


def started(disk: SimulatedDisk, boot_id: str = "boot-1") -> World:
    return bookie(disk, was_killed=losses_found(disk, boot_id).was_killed)


def payload(number: int) -> bytes:
    return b"<%03d>" % number


@pytest.mark.parametrize("how", ["no space", "killed"])
def test_a_start_that_ends_in_the_replay_is_no_loss_after_a_stop_in_good_order(
    disk: SimulatedDisk, how: str
) -> None:
    """The release before had no note, and the process is tried again or killed before its own."""
    losses = losses_found(disk)
    world = bookie(disk, was_killed=losses.was_killed)
    add_some(world, 0, 3)
    world.checkpoint()
    world.storage.close()
    losses.end_serving()
    disk.remove_at_rest(NOTE)

    losses_found(disk)
    if how == "killed":
        disk.crash_at = disk.operation_count + 2
        with pytest.raises(SimulatedCrash):
            bookie(disk)
        disk.process_crash()
    else:
        disk.faults.append(Fault("create", errno.ENOSPC, path_part="journal"))
        with pytest.raises(NoSpaceError):
            bookie(disk)

    assert in_doubt(started(disk)) == set()


@pytest.mark.parametrize("seed", range(10))
def test_what_a_loss_of_power_took_is_no_loss_to_a_start_that_follows_a_killed_one(
    disk: SimulatedDisk, seed: int
) -> None:
    world = started(disk)
    add_some(world, 0, 3)
    world.checkpoint()
    for number in range(3, 40):
        world.say(*add(batch(number, [b"<%0300d>" % number]), kind=BYPASS))
        world.written()
    disk.crash(Random(seed))
    losses_found(disk, "boot-2")
    disk.crash_at = disk.operation_count + 2
    with pytest.raises(SimulatedCrash):
        bookie(disk)
    disk.process_crash()

    world = started(disk, "boot-2")

    assert LossReason.INDEX_LOST not in world.storage.limbo.limbo.reasons


@pytest.mark.parametrize("damage", ["header", "empty", "cut", "body"])
def test_the_damage_of_a_new_log_is_noticed_after_a_kill(disk: SimulatedDisk, damage: str) -> None:
    """The page cache is there, so nothing of what was acknowledged can be torn."""
    world = bookie(disk)
    add_some(world, 0, 3)
    (path,) = disk.paths(LOGS)
    disk.process_crash()
    content = disk.content(path)
    match damage:
        case "header":
            disk.flip_bit(path, 9)
        case "empty":
            disk.set_content(path, b"")
        case "cut":
            disk.set_content(path, content[:40])
        case _:
            disk.flip_bit(path, 8 * (len(content) - 5))

    assert in_doubt(bookie(disk, was_killed=True)) == {LEDGER_ID}


def test_a_log_without_a_header_is_lost_to_ledgers_that_have_earlier_entries(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    world.checkpoint()
    (first,) = disk.paths(LOGS)
    for number in range(3, 40):
        world.say(*add(batch(number, [b"<%0300d>" % number]), kind=BYPASS))
        world.written()
    disk.process_crash()
    disk.set_content(max(disk.paths(LOGS)), b"")
    assert max(disk.paths(LOGS)) != first

    assert in_doubt(bookie(disk, was_killed=True)) == {LEDGER_ID}


@pytest.mark.parametrize("lack", ["space", "a descriptor"])
@pytest.mark.parametrize("attempt_count", [1, 2])
def test_nothing_goes_to_a_log_of_the_replay_that_is_not_noted(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, lack: str, attempt_count: int
) -> None:
    """The replay makes a log, and there is no checkpoint, as with thousands of ledgers."""
    monkeypatch.setattr(bookie_storage, "LEDGERS_AT_START_MAX", 0)
    add_some(bookie(disk), 0, 3, ledger_id=JOURNALED, kind=PD)
    disk.process_crash()
    if lack == "space":
        for _ in range(attempt_count):
            disk.faults.append(Fault("create", errno.ENOSPC, path_part="new_logs.new"))
    else:
        note, left = LedgerDirectory.note_new_logs, iter(range(attempt_count))

        def without_descriptor(self: LedgerDirectory) -> None:
            if next(left, None) is not None:
                first = disk.descriptor_count + 2
                disk.without_descriptor = range(first, first + 1)
            note(self)

        monkeypatch.setattr(LedgerDirectory, "note_new_logs", without_descriptor)
    world = bookie(disk, was_killed=True)
    world.space.is_readonly = False  # the monitor of the disk has seen space again
    add_some(world, 0, 3, ledger_id=YOUNG)
    assert held(world.storage, YOUNG, payload) == [(0, 2)]
    log = max(disk.paths(LOGS))
    monkeypatch.undo()

    world = killed(disk, [log])

    assert in_doubt(world) == {YOUNG}


def test_a_loss_that_was_cleared_does_not_come_back_though_there_was_no_space_for_the_note(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    disk.remove_at_rest(NOTE)
    disk.process_crash()
    for _ in range(2):
        disk.faults.append(Fault("create", errno.ENOSPC, path_part="new_logs.new"))
    world = bookie(disk, was_killed=True)
    assert in_doubt(world) == {LEDGER_ID}
    assert world.storage.limbo.clear([(0, 20)])
    world.checkpoint()

    assert in_doubt(killed(disk, [])) == set()


@pytest.mark.parametrize("attempt_count", [1, 2])
def test_a_bookie_without_space_for_the_note_starts(
    disk: SimulatedDisk, attempt_count: int
) -> None:
    """It may be the disk of one directory of several: the others serve."""
    started(disk).storage.close()
    Losses(disk, limbo_on(disk), [LEDGERS], "boot-1").end_serving()
    for _ in range(attempt_count):
        disk.faults.append(Fault("create", errno.ENOSPC, path_part="new_logs.new"))

    world = started(disk)

    assert disk.faults == []
    add_some(world, 0, 3)
    assert in_doubt(killed(disk, disk.paths(LOGS))) == {LEDGER_ID}


@pytest.mark.parametrize("seed", range(5))
def test_after_a_stop_without_a_last_checkpoint_no_power_is_needed(
    disk: SimulatedDisk, seed: int
) -> None:
    """Such a bookie records that all is on stable storage."""
    world = bookie(disk)
    add_some(world, 0, 3)
    world.storage.close()
    disk.crash(Random(seed))

    world = bookie(disk)

    assert held(world.storage, LEDGER_ID, payload) == [(0, 2)]
    assert in_doubt(world) == set()
