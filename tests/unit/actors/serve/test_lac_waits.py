"""A reader waits for a LAC, and is answered once that is durable or the time is over."""

import threading
from collections.abc import Callable

import pytest

from tests.support.lac_bookie import WATCH_COUNT_MAX, bookie, with_two_entries
from tests.support.storage_actor import LEDGER_ID, World, add, batch, read_lac, write_lac
from zbk.actors.serve import lac_watches
from zbk.actors.serve.lac_watches import WAIT_MS_MAX
from zbk.actors.serve.storage import WatchesDue
from zbk.actors.serve.storage_door import Quiesce
from zbk.actors.serve.sync_queue import Synced
from zbk.errors import NoSuchLedgerError, UnauthorizedError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.transport.inbound import Inbound
from zbk.wire.messages import LacAnswer


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
