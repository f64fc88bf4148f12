"""Entry logs that vanish while the process is down: what only they had is not denied."""

from copy import deepcopy
from random import Random

import pytest

from tests.support.killed_bookie import (
    BYPASS,
    JOURNALED,
    LOGS,
    OTHER,
    PD,
    YOUNG,
    add_large,
    add_some,
    bookie,
    in_doubt,
    killed,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, add, batch, read_lac, write_lac
from zbk.storage.entry_logs.entry_log import log_path
from zbk.wire.messages import Sync


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def test_a_lost_log_puts_ledgers_in_doubt_that_no_index_has(disk: SimulatedDisk) -> None:
    """The census has the log. Of the entries that came after it, only the log knew."""
    world = bookie(disk)
    add_some(world, 0, 2)
    world.checkpoint()
    add_some(world, 2, 1)
    add_some(world, 0, 3, ledger_id=YOUNG)
    add_some(world, 0, 3, ledger_id=JOURNALED, kind=PD)

    world = killed(disk, disk.paths(LOGS))

    assert in_doubt(world) == {LEDGER_ID, YOUNG}
    assert world.storage.homes.ledger(JOURNALED).index.last_entry_id == 2, "the journal had them"


def test_a_log_that_only_the_journal_shows_puts_the_others_in_doubt(disk: SimulatedDisk) -> None:
    """It is younger than the census, and had synced entries of one of the ledgers."""
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 0, 1, ledger_id=YOUNG)
    world.say(Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=-1))
    world.sync_logs()
    world.settle_journal()
    add_some(world, 1, 1, ledger_id=YOUNG)
    add_some(world, 0, 1, ledger_id=OTHER)

    assert in_doubt(killed(disk, disk.paths(LOGS))) == {LEDGER_ID, YOUNG, OTHER}


def test_a_key_without_an_entry_shows_that_a_log_is_lost(disk: SimulatedDisk) -> None:
    """Nothing was synced, and there was no checkpoint."""
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 0, 1, ledger_id=YOUNG)

    assert in_doubt(killed(disk, disk.paths(LOGS))) == {LEDGER_ID, YOUNG}


def test_after_a_loss_of_power_a_key_without_an_entry_shows_nothing(disk: SimulatedDisk) -> None:
    """The page cache is gone, and an unclean stop is noted for that."""
    world = bookie(disk)
    add_some(world, 0, 3)
    world.settle_journal()
    disk.crash(Random(3))

    world = bookie(disk)

    assert world.storage.homes.info(LEDGER_ID) is not None
    assert in_doubt(world) == set()


def test_a_fence_or_a_lac_without_an_entry_shows_nothing(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    world.say(read_lac(is_fencing=True, kind=BYPASS))
    world.say(write_lac(3, ledger_id=YOUNG, kind=BYPASS))
    world.written()

    assert in_doubt(killed(disk, [])) == set()


def test_without_a_lost_log_a_killed_bookie_has_no_doubts(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    world.checkpoint()
    add_some(world, 2, 1)
    add_some(world, 0, 1, ledger_id=YOUNG)

    assert in_doubt(killed(disk, [])) == set()


def test_a_ledger_that_was_deleted_is_in_no_doubt(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    add_some(world, 0, 1, ledger_id=YOUNG)
    assert world.storage.mark_deleted([YOUNG])
    assert world.storage.garbages[0].deleted.write()

    assert in_doubt(killed(disk, disk.paths(LOGS))) == {LEDGER_ID}


def test_the_doubt_outlives_the_next_kill(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 2)
    killed(disk, disk.paths(LOGS))

    assert in_doubt(killed(disk, [])) == {LEDGER_ID}


def test_of_several_new_logs_the_loss_of_one_is_noticed(disk: SimulatedDisk) -> None:
    """Each ledger has entries in the others, nothing was synced, and no checkpoint came."""
    world = bookie(disk)
    for number in range(40):
        payload = b"<%0300d>" % number
        world.say(*add(batch(number, [payload], ledger_id=YOUNG), kind=BYPASS))
        world.say(*add(batch(number, [payload], ledger_id=JOURNALED), kind=PD))
        world.written()
    logs = disk.paths(LOGS)
    assert len(logs) > 5

    for path in logs:
        assert in_doubt(killed(deepcopy(disk), [path])) == {YOUNG}, path
    assert in_doubt(killed(disk, [])) == set()


def test_of_a_lost_own_log_only_its_ledger_is_in_doubt(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for ledger_id in (YOUNG, OTHER):
        add_some(world, 0, 1, ledger_id=ledger_id)
        add_large(world, 1, ledger_id)
    own = world.storage.directories[0].logs.own_log_of(YOUNG)
    assert own is not None

    assert in_doubt(killed(disk, [log_path(LOGS[:-1], own)])) == {YOUNG}


def test_an_own_log_that_was_collected_with_its_ledger_is_not_lost(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes before any checkpoint has covered it."""
    world = bookie(disk)
    add_some(world, 0, 1, ledger_id=OTHER)
    add_large(world, 0, YOUNG)
    (garbage,) = world.storage.garbages
    assert world.storage.mark_deleted([YOUNG])
    assert garbage.deleted.write()
    garbage.drop([YOUNG])
    assert garbage.remove_dead(garbage.left_logs())

    assert in_doubt(killed(disk, [])) == set()
    assert caplog.messages == []


def test_a_lost_log_gives_its_id_to_no_other_one(disk: SimulatedDisk) -> None:
    """Pages of the index that were written early may point at it."""
    world = bookie(disk)
    add_some(world, 0, 1)
    (path,) = disk.paths(LOGS)

    world = killed(disk, [path])
    add_some(world, 1, 1, ledger_id=OTHER)

    assert path not in disk.paths(LOGS)


def test_a_lost_or_damaged_note_puts_all_that_bypasses_the_journal_in_doubt(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 1, ledger_id=YOUNG)
    add_some(world, 0, 1, ledger_id=JOURNALED, kind=PD)
    world.checkpoint()
    (note,) = disk.paths("/new_logs")

    assert in_doubt(killed(deepcopy(disk), [note])) == {YOUNG}
    disk.set_content(note, disk.content(note)[:-1] + b"?")
    assert in_doubt(killed(disk, [])) == {YOUNG}


def test_after_a_loss_of_power_the_note_says_nothing(disk: SimulatedDisk) -> None:
    """An unclean stop is noted for what was not synced, and the journal for what was."""
    world = bookie(disk)
    add_some(world, 0, 1)
    world.checkpoint()
    add_some(world, 1, 1)
    (note,) = disk.paths("/new_logs")
    disk.crash(Random(1))
    disk.remove_at_rest(note)

    assert in_doubt(bookie(disk)) == set()
