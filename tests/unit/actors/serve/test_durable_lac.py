"""The LAC that readers are told: once told, told again, whatever happens; and waiting for it."""

import threading
from collections.abc import Callable
from random import Random

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch, read, read_lac, write_lac
from zbk.actors.serve import lac_watches
from zbk.actors.serve.lac_watches import WAIT_MS_MAX
from zbk.actors.serve.storage import WatchesDue
from zbk.actors.serve.storage_door import Quiesce
from zbk.actors.serve.sync_queue import Synced
from zbk.errors import NoSuchLedgerError, UnauthorizedError, UnsupportedLedgerError
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.transport.inbound import Inbound
from zbk.wire.messages import GetLedgerInfo, LacAnswer, LedgerInfo, ReadAnswer, Refused, Sync

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
SEGMENT_SIZE = SEGMENT_HEADER_SIZE + 8192


WATCH_COUNT_MAX = 50


def bookie(disk: SimulatedDisk | None = None, *, ledger_count_max: int = 1_000) -> World:
    return World(
        disk or SimulatedDisk(),
        "/b",
        segment_size=SEGMENT_SIZE,
        ledger_count_max=ledger_count_max,
        watch_count_max=WATCH_COUNT_MAX,
    )


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


def with_two_entries(*, kind: LedgerType = PD) -> World:
    world = bookie()
    world.say(*add(batch(0, [b"a", b"b"]), kind=kind))
    world.settle()
    world.answers.clear()
    return world


# ------------------------------------------------------------------ what is told


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


# ------------------------------------------------------------------ waiting for it


def wait(world: World, known_lac: int, *, wait_ms: int = 500, request_id: int = 5) -> None:
    world.say(read_lac(known_lac=known_lac, wait_ms=wait_ms, request_id=request_id))


def lacs(world: World) -> list[tuple[int, int]]:
    """Return the LACs that were told, with the requests' ids."""
    return [(a.request_id, a.lac) for a in world.answers if isinstance(a, LacAnswer)]


def test_a_reader_that_waits_is_answered_when_the_lac_is_durable() -> None:
    world = with_two_entries()
    wait(world, NO_ENTRY)
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))
    world.written()
    assert lacs(world) == []

    world.synced()

    assert lacs(world) == [(5, 1)]


def test_a_reader_that_comes_between_the_add_and_its_sync_is_answered_by_it() -> None:
    world = with_two_entries()
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))
    world.written()
    wait(world, NO_ENTRY)
    assert lacs(world) == []

    world.synced()

    assert lacs(world) == [(5, 1)]


def test_a_sync_that_ends_while_a_reader_comes_is_not_missed() -> None:
    """The sync looked whether anybody waits before the reader did; no news will come of it."""
    world = with_two_entries()
    world.say(*add(batch(2, [b"c"], lac=1), lac=1))
    world.written()

    def end_sync() -> None:  # the clock is read between the two looks
        world.progress.synced_ticket = world.groups[-1].ticket

    world.on_clock = end_sync

    wait(world, NO_ENTRY)

    assert lacs(world) == [(5, 1)]


def test_only_those_who_know_less_are_answered() -> None:
    world = with_two_entries()
    wait(world, NO_ENTRY, request_id=5)
    wait(world, 1, request_id=6)

    world.say(write_lac(1))
    world.settle()

    assert lacs(world) == [(4, 1), (5, 1)]
    world.say(write_lac(2))
    world.settle()
    assert lacs(world)[2:] == [(4, 2), (6, 2)]


def test_a_reader_who_knows_less_does_not_wait() -> None:
    world = with_two_entries()
    world.say(write_lac(1))
    world.settle()

    wait(world, 0)

    assert lacs(world)[-1] == (5, 1)


def test_a_reader_is_answered_at_its_deadline_with_the_lac_that_there_is() -> None:
    world = with_two_entries()
    wait(world, NO_ENTRY, wait_ms=500)
    world.now_ms += 499
    world.tell(WatchesDue())
    assert lacs(world) == []

    world.now_ms += 1
    world.tell(WatchesDue())

    assert lacs(world) == [(5, NO_ENTRY)]


def test_nobody_waits_longer_than_the_limit() -> None:
    world = with_two_entries()
    wait(world, NO_ENTRY, wait_ms=2**62)

    world.now_ms += WAIT_MS_MAX
    world.tell(WatchesDue())

    assert lacs(world) == [(5, NO_ENTRY)]


def test_a_fence_ends_the_waiting_and_nobody_waits_behind_it() -> None:
    world = with_two_entries()
    wait(world, NO_ENTRY)

    world.say(read_lac(is_fencing=True, request_id=9))
    assert lacs(world) == [(5, NO_ENTRY)]
    wait(world, NO_ENTRY, request_id=6)

    assert lacs(world) == [(5, NO_ENTRY), (6, NO_ENTRY)]


def test_over_the_limit_a_reader_is_answered_at_once() -> None:
    world = with_two_entries()
    for request_id in range(100, 100 + WATCH_COUNT_MAX):
        wait(world, NO_ENTRY, request_id=request_id)
    assert lacs(world) == []

    wait(world, NO_ENTRY, request_id=5)
    assert lacs(world) == [(5, NO_ENTRY)]

    world.say(write_lac(0))
    world.settle()
    assert len(lacs(world)) == 2 + WATCH_COUNT_MAX


def test_deadlines_of_readers_that_were_answered_take_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lac_watches, "POLL_SLACK_COUNT", 10)
    watches = lac_watches.LacWatches()
    for number in range(100):
        request = read_lac(known_lac=-1, wait_ms=60_000, request_id=number)
        watches.add_poll(Inbound(b"peer", request, (), 100), request, now_ms=number)
        (watch,) = watches.ledgers[LEDGER_ID]
        watches.end(watch, 0)

    assert len(watches._polls) <= 12


def test_syncs_are_announced_only_while_a_lac_that_is_waited_for_is_on_its_way() -> None:
    """An idle ledger that is watched costs its neighbors' syncs nothing."""
    world = with_two_entries()
    watched = []
    steps: list[Callable[[], None]] = [
        lambda: None,
        lambda: world.say(write_lac(0)),
        world.settle,
        lambda: wait(world, 0),
        lambda: world.say(*add(batch(0, [b"x"], ledger_id=30))),
        world.settle,
        lambda: world.say(write_lac(1)),
        world.settle,
    ]
    for step in steps:
        step()
        watched.append(world.progress.is_watched)

    assert watched == [False, False, False, False, False, False, True, False]
    assert lacs(world)[-2:] == [(4, 1), (5, 1)]


def test_the_clock_is_looked_at_only_while_a_reader_waits() -> None:
    world = with_two_entries()
    ticking = []
    steps: list[Callable[[], None]] = [
        lambda: None,
        lambda: wait(world, NO_ENTRY, request_id=5),
        lambda: wait(world, NO_ENTRY, request_id=6, wait_ms=900),
        lambda: setattr(world, "now_ms", world.now_ms + 500),
        lambda: world.tell(WatchesDue()),
        lambda: world.say(write_lac(1)),
        world.settle,
        lambda: world.tell(WatchesDue()),
    ]
    for step in steps:
        step()
        ticking.append(len(world.ticker.callbacks))

    assert ticking == [0, 1, 1, 1, 1, 1, 1, 0]


def test_a_reader_is_answered_though_its_ledger_was_forgotten_meanwhile() -> None:
    world = bookie(ledger_count_max=1)
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.answers.clear()
    wait(world, NO_ENTRY)
    for ledger_id in range(30, 34):
        world.say(*add(batch(0, [b"x"], ledger_id=ledger_id)))
        world.settle()

    world.say(write_lac(0))
    world.settle()

    assert lacs(world) == [(4, 0), (5, 0)]


def test_nobody_waits_for_a_ledger_that_is_not_here_or_with_another_key() -> None:
    world = bookie()
    wait(world, NO_ENTRY)
    assert world.last_error() is NoSuchLedgerError
    world.say(*add(batch(0, [b"a"])))

    world.say(read_lac(wait_ms=500, key=bytes(16)))

    assert world.last_error() is UnauthorizedError


def test_a_bookie_that_stops_answers_those_who_wait() -> None:
    world = with_two_entries()
    wait(world, NO_ENTRY)

    world.tell(Quiesce(threading.Event()))

    assert lacs(world) == [(5, NO_ENTRY)]
    assert not world.progress.is_watched


def test_news_of_a_sync_that_concerns_nobody_are_harmless() -> None:
    world = with_two_entries()

    world.tell(Synced(world.groups[-1].ticket))
    world.tell(WatchesDue())

    assert world.answers == []
