"""A session of a connection waits for the LACs of many ledgers with one request."""

import threading

from tests.support.lac_sessions import (
    WATCH_COUNT_MAX,
    bookie,
    refused,
    rise,
    say,
    told,
    watch,
    with_ledgers,
)
from tests.support.storage_actor import write_lac
from zbk.actors.serve.lac_watches import SESSION_IDLE_MS, WAIT_MS_MAX
from zbk.actors.serve.storage import WatchesDue
from zbk.actors.serve.storage_door import Quiesce
from zbk.errors import BusyError
from zbk.wire.messages import RISEN_COUNT_MAX, LacsRisen


def test_one_request_hears_of_all_that_rise_in_one_turn_and_the_others_go_on() -> None:
    world = with_ledgers(30, 31, 32)
    say(world, 5, watch(1, 30), watch(2, 31), watch(3, 32), is_first=True)
    assert told(world) == []

    world.say_together((write_lac(0, ledger_id=30),), (write_lac(1, ledger_id=31),))
    world.settle()

    assert told(world) == [(5, [(1, 0), (2, 1)])]
    rise(world, 32, 0)
    assert told(world) == [], "no request waits"
    say(world, 6)
    assert told(world) == [(6, [(3, 0)])]


def test_the_next_request_of_a_session_ends_the_wait_of_the_one_before() -> None:
    world = with_ledgers(30, 31)
    say(world, 5, watch(1, 30), is_first=True)

    say(world, 6, watch(2, 31), ended=(1,))

    assert told(world) == [(5, [])]
    rise(world, 30, 0)
    assert told(world) == [], "it was dropped"
    rise(world, 31, 0)
    assert told(world) == [(6, [(2, 0)])]


def test_a_repeated_request_is_answered_and_changes_nothing() -> None:
    world = with_ledgers(30)
    say(world, 1, is_first=True)
    say(world, 2, watch(4, 30))
    rise(world, 30, 1)
    assert told(world) == [(1, []), (2, [(4, 1)])]

    say(world, 2, watch(4, 30))  # its answer would tell 4 once more, and nobody would hear it
    say(world, 1, is_first=True)
    assert told(world) == [(2, []), (1, [])]

    say(world, 3, watch(5, 30, 1))
    rise(world, 30, 2)
    assert told(world) == [(3, [(5, 2)])]


def test_a_request_is_answered_at_its_deadline_and_no_later_than_the_limit() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    world.now_ms += 499
    world.tell(WatchesDue())
    assert told(world) == []
    world.now_ms += 1
    world.tell(WatchesDue())
    assert told(world) == [(5, [])]

    say(world, 6, wait_ms=2**62)
    world.now_ms += WAIT_MS_MAX
    world.tell(WatchesDue())

    assert told(world) == [(6, [])]
    rise(world, 30, 0)
    say(world, 7)
    assert told(world) == [(7, [(1, 0)])]


def test_a_session_without_a_request_is_forgotten_and_its_client_hears_of_that() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    rise(world, 30, 0)
    world.now_ms += SESSION_IDLE_MS
    world.tell(WatchesDue())
    assert not world.ticker.callbacks, "nothing is left to look at"
    world.answers.clear()

    say(world, 6, watch(2, 30))

    (answer,) = world.answers
    assert isinstance(answer, LacsRisen)
    assert answer.is_lost
    say(world, 7, watch(2, 30), is_first=True, session_id=2)
    assert told(world)[-1] == (7, [(2, 0)])


def test_a_new_session_of_a_connection_ends_the_one_before() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)

    say(world, 6, watch(2, 30), is_first=True, session_id=2)
    say(world, 7, watch(3, 30), session_id=1)

    answers = {a.request_id: a for a in world.answers if isinstance(a, LacsRisen)}
    assert not answers[5].is_lost
    assert answers[7].is_lost
    world.answers.clear()
    rise(world, 30, 0)
    assert told(world) == [(6, [(2, 0)])]


def test_connections_have_sessions_of_their_own() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)
    world.peer = b"other"
    say(world, 6, watch(1, 30), is_first=True)

    rise(world, 30, 0)

    assert sorted(told(world)) == [(5, [(1, 0)]), (6, [(1, 0)])]


def test_over_the_limit_a_watch_is_refused_and_the_others_go_on() -> None:
    world = with_ledgers(30)
    watches = [watch(number, 30) for number in range(WATCH_COUNT_MAX + 2)]

    say(world, 5, *watches, is_first=True)

    assert refused(world) == {WATCH_COUNT_MAX: BusyError, WATCH_COUNT_MAX + 1: BusyError}
    world.answers.clear()
    say(world, 6, ended=(0,))
    rise(world, 30, 0)
    assert [number for number, _ in told(world)[0][1]] == list(range(1, WATCH_COUNT_MAX))


def test_what_does_not_fit_into_one_answer_comes_with_the_next() -> None:
    count = RISEN_COUNT_MAX + 3
    world = with_ledgers(30, world=bookie(watch_count_max=count))
    say(world, 5, is_first=True)
    for first in range(0, count, 500):
        some = [watch(number, 30) for number in range(first, min(first + 500, count))]
        say(world, 6 + first, *some)
    world.answers.clear()

    rise(world, 30, 0)
    say(world, 6 + count)

    assert [len(risen) for _, risen in told(world)] == [RISEN_COUNT_MAX, 3]


def test_a_bookie_that_stops_answers_the_sessions() -> None:
    world = with_ledgers(30)
    say(world, 5, watch(1, 30), is_first=True)

    world.tell(Quiesce(threading.Event()))

    assert told(world) == [(5, [])]
