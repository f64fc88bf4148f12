"""Entry logs that vanish while the process is down: what only they had is not denied."""

from collections.abc import Iterable
from random import Random

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch, read_lac, write_lac
from zbk.durability.limbo import LossReason
from zbk.protocol.entry.words import LedgerType
from zbk.wire.messages import Sync

BYPASS = LedgerType.VD_BYPASS_JOURNAL
PD = LedgerType.PD_JOURNAL
LOGS = "/b/ledgers/logs/"
YOUNG, OTHER, JOURNALED = 5, 6, 9


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def bookie(disk: SimulatedDisk, *, was_killed: bool = False) -> World:
    return World(disk, "/b", segment_size=1 << 16, was_killed=was_killed)


def add_some(
    world: World, first: int, count: int, ledger_id: int = LEDGER_ID, kind: LedgerType = BYPASS
) -> None:
    payloads = [b"<%03d>" % number for number in range(first, first + count)]
    world.say(*add(batch(first, payloads, ledger_id=ledger_id), kind=kind))
    world.written()


def killed(disk: SimulatedDisk, lost_logs: Iterable[str]) -> World:
    """Kill the process, take logs away, and start again."""
    disk.process_crash()
    for path in lost_logs:
        disk.remove_at_rest(path)
    return bookie(disk, was_killed=True)


def in_doubt(world: World) -> set[int]:
    limbo = world.storage.limbo.limbo
    assert limbo.reasons in ((), (LossReason.INDEX_LOST,))
    return {one for one in range(20) if limbo.is_miss_unknown(one, BYPASS)}


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
