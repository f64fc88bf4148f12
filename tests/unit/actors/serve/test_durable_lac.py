"""A LAC that readers were told is told again, whatever happens."""

from random import Random

import pytest

from tests.support.lac_bookie import bookie, with_two_entries
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch, read, read_lac, write_lac
from zbk.errors import NoSuchLedgerError, UnauthorizedError, UnsupportedLedgerError
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.wire.messages import GetLedgerInfo, LacAnswer, LedgerInfo, ReadAnswer, Refused, Sync

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL


def told(world: World, *, kind: LedgerType = PD) -> int:
    """Ask for the LAC as a reader does."""
    world.answers.clear()
    world.say(read_lac(kind=kind))
    answer = world.answers[-1]
    if isinstance(answer, Refused):
        assert world.last_error() is NoSuchLedgerError
        return NO_ENTRY
    assert isinstance(answer, LacAnswer)
    return answer.lac


@pytest.mark.parametrize("kind", LedgerType)
def test_a_lac_that_came_with_an_entry_is_told_once_the_entry_is_synced(kind: LedgerType) -> None:
    """B23: told earlier, a loss of power would take back what was readable."""
    world = with_two_entries(kind=kind)
    world.say(*add(batch(2, [b"c"], lac=1), lac=1, kind=kind))
    assert told(world, kind=kind) == NO_ENTRY
    world.written()
    assert told(world, kind=kind) == NO_ENTRY
    world.synced()

    assert told(world, kind=kind) == 1


def test_what_a_read_and_an_info_say_of_the_lac_is_durable_too() -> None:
    """B23: whatever carries a LAC."""
    world = with_two_entries()
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))

    lacs = []
    for _ in range(2):
        world.say(GetLedgerInfo(request_id=3, ledger_id=LEDGER_ID))
        world.say(read(0, 0))
        world.fetched()
        lacs += [one.lac for one in world.answers if isinstance(one, LedgerInfo | ReadAnswer)]
        world.answers.clear()
        world.settle()

    assert lacs == [-1, 1, 1, 1], "the first info came when all was synced"


def test_only_the_lac_in_the_header_of_a_stored_entry_would_be_found_again() -> None:
    """B23: an add that is sent again may say more in its request than its entries do."""
    disk = SimulatedDisk()
    world = bookie(disk)
    world.say(*add(batch(0, [b"a", b"b", b"c"], lac=-1), lac=1))
    world.settle()

    assert told(world) == NO_ENTRY
    assert told(bookie(disk.crash(Random(1)))) == NO_ENTRY


def test_the_lac_of_a_sync_is_kept_like_an_explicit_one() -> None:
    """B23: the writer of a VD ledger tells there what an ack quorum has synced."""
    disk = SimulatedDisk()
    world = bookie(disk)
    world.say(*add(batch(0, [b"a", b"b"]), kind=VD))
    world.settle()
    world.say(Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=1))
    assert told(world, kind=VD) == NO_ENTRY
    world.settle()

    assert told(world, kind=VD) == 1
    assert told(bookie(disk.crash(Random(1))), kind=VD) == 1


def test_an_explicit_lac_is_readable_once_it_is_durable() -> None:
    """B23: the explicit LAC was in memory only."""
    disk = SimulatedDisk()
    world = bookie(disk)
    world.say(*add(batch(0, [b"a"] * 10)))
    world.settle()
    world.answers.clear()

    world.say(write_lac(9))
    world.written()
    assert world.answers == []
    assert told(world) == NO_ENTRY
    world.synced()

    assert told(world) == 9
    assert told(bookie(disk.crash(Random(1)))) == 9


def test_an_explicit_lac_survives_checkpoints_and_forgetting() -> None:
    disk = SimulatedDisk()
    world = bookie(disk, ledger_count_max=1)
    world.say(*add(batch(0, [b"a"] * 10)))
    world.say(write_lac(9))
    world.settle()
    for ledger_id in range(30, 40):
        world.say(*add(batch(0, [bytes(900)] * 3, ledger_id=ledger_id)))
        world.settle()
        world.checkpoint()

    assert told(world) == 9
    assert told(bookie(disk.crash(Random(3)))) == 9


def test_an_explicit_lac_makes_a_ledger_known() -> None:
    """The writer may be idle since it has changed to this bookie."""
    disk = SimulatedDisk()
    world = bookie(disk)

    world.say(write_lac(4))
    world.settle()

    assert world.answers[-1] == LacAnswer(request_id=4, incarnation=3, lac=4)
    assert told(bookie(disk.crash(Random(1)))) == 4
    world.say(write_lac(5, kind=VD))
    assert world.last_error() is UnsupportedLedgerError
    world.say(write_lac(5, key=bytes(16)))
    assert world.last_error() is UnauthorizedError


def test_an_explicit_lac_that_came_again_is_not_written_again() -> None:
    world = with_two_entries()
    world.say(write_lac(1))
    world.say(write_lac(1))
    world.written()
    assert world.answers == [], "the first one is not durable yet"
    world.synced()
    group_count = len(world.groups)

    world.say(write_lac(1))
    world.say(write_lac(0))

    assert [answer.request_id for answer in world.answers] == [4, 4, 4, 4]
    assert len(world.groups) == group_count


def test_a_ledger_is_not_forgotten_while_its_lac_is_on_its_way() -> None:
    """B23: made again from what storage notes, the LAC would look durable."""
    world = bookie(ledger_count_max=1)
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.say(*add(batch(1, [b"b"], lac=0), lac=0))
    for ledger_id in range(30, 34):
        world.say(*add(batch(0, [b"x"], ledger_id=ledger_id)))

    assert told(world) == NO_ENTRY


@pytest.mark.parametrize("seed", range(60))
def test_a_lac_that_was_told_is_told_again_whatever_came_between(seed: int) -> None:
    """B23: adds, explicit LACs, syncs, checkpoints and losses of power in any order."""
    rng = Random(seed)
    kind = rng.choice(list(LedgerType))
    disk = SimulatedDisk()
    world = bookie(disk, ledger_count_max=1)
    highest = lac = NO_ENTRY
    next_id = 0
    for number in range(200):
        match rng.randrange(9):
            case 0 | 1 | 2:
                count = rng.randrange(1, 4)
                said = min(lac + rng.randrange(3), next_id - 1)  # more than its entries say
                world.say(*add(batch(next_id, [b"x"] * count, lac=lac), lac=said, kind=kind))
                next_id += count
            case 3:
                lac = max(lac, rng.randrange(-1, next_id))
            case 4:
                world.say(write_lac(lac, kind=kind))
            case 5:
                world.written()
            case 6:
                world.settle()
            case 7:
                world.say(*add(batch(0, [b"x"], ledger_id=100 + number)))  # forgets the other one
                if rng.random() < 0.3:
                    world.checkpoint()
            case 8 if rng.random() < 0.4:
                world = bookie(disk.crash(Random(number)), ledger_count_max=1)
                info = world.storage.homes.info(LEDGER_ID)
                next_id = 0 if info is None else info.last_entry_id + 1
        now = told(world, kind=kind)
        assert now >= highest
        highest = now
    assert highest > NO_ENTRY
