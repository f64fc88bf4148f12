"""A pool of connections that has nothing to do: it closes what nobody uses, and does not turn."""

import itertools
import threading
from collections.abc import Iterator

import pytest
import zmq

from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, INSTANCE_ID, Echo, Inbox, front, outgoing
from zbk.errors import BookieUnavailableError, RequestTimeoutError
from zbk.system.clock import monotonic_ms
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, BookieUp, DealerOptions, Reply

LOOK_MS = 400
"""Over so long turns are counted. It was a turn in 20 ms once, so 20 of them."""

TURN_COUNT_MAX = 5
EVENT_COUNT_MAX = 30
"""Of a connection that is made, greeted and asked once."""


class CountingPoller(zmq.Poller):
    """Counts how often the pool's thread has waited, and knows how long it sleeps now."""

    turn_count = 0
    busy_count = 0
    sleep_ms: int | None = 0  # None: until something happens

    def poll(self, timeout: int | None = None) -> list[tuple[object, int]]:
        if timeout == 0:
            self.busy_count += 1
        else:
            self.turn_count += 1
        self.sleep_ms = timeout
        ready = super().poll(timeout)
        self.sleep_ms = 0
        return ready

    def is_asleep(self) -> bool:
        """Return whether the pool's thread stays asleep for ``LOOK_MS`` if nothing comes."""
        return self.sleep_ms is None or self.sleep_ms >= LOOK_MS


class World:
    def __init__(self, idle_ms: int, spin_us: int = 0) -> None:
        self.echo = Echo()
        self.server = front(self.echo)
        self.poller = CountingPoller()
        options = DealerOptions(INSTANCE_ID, "test", 2_000, idle_ms, spin_us)
        self.pool = BookiePool(options, self.poller)
        self.pool.set_addresses({BOOKIE_ID: self.server.endpoint})

    def ask(self, timeout_ms: int = 10_000) -> Inbox:
        inbox = Inbox()
        self.pool.request(outgoing(inbox, timeout_ms=timeout_ms))
        return inbox

    def turns(self) -> int:
        """Return how often the pool turns in ``LOOK_MS`` when nothing comes from outside."""
        done = threading.Event()
        before = self.poller.turn_count
        self.pool.call_at(monotonic_ms() + LOOK_MS, done.set)
        assert done.wait(20)
        return self.poller.turn_count - before

    def close(self) -> None:
        self.pool.close()
        self.server.stop()


@pytest.fixture
def world() -> Iterator[World]:
    made = World(idle_ms=60_000)
    yield made
    made.close()


@pytest.fixture
def hasty() -> Iterator[World]:
    """A world whose connections are soon idle."""
    made = World(idle_ms=50)
    yield made
    made.close()


def test_a_connection_that_nobody_uses_is_closed_and_made_again_when_it_is_needed(
    hasty: World,
) -> None:
    for _ in range(2):
        assert isinstance(hasty.ask().wait_for_kind(Reply), Reply)

        wait_until(lambda: not hasty.pool._connections, what="the connection is closed")
        assert hasty.turns() <= TURN_COUNT_MAX


def test_a_connection_that_waits_for_an_answer_is_in_use(hasty: World) -> None:
    hasty.echo.is_holding = True
    inbox = hasty.ask()
    assert hasty.echo.arrived.acquire(timeout=10)
    assert hasty.turns() <= TURN_COUNT_MAX

    hasty.echo.answer(hasty.echo.held.pop())

    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    assert not isinstance(reply.outcome, BookieUnavailableError)


def test_a_subscribed_connection_stays_until_it_is_unsubscribed(hasty: World) -> None:
    inbox = Inbox()
    hasty.pool.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)
    assert hasty.turns() <= TURN_COUNT_MAX
    assert hasty.pool._connections

    hasty.pool.unsubscribe(BOOKIE_ID, inbox)

    wait_until(lambda: not hasty.pool._connections, what="the connection is closed")


def test_a_pool_with_nothing_to_do_does_not_turn(world: World) -> None:
    inbox = Inbox()
    world.pool.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)
    world.ask().wait_for_kind(Reply)

    assert world.turns() <= TURN_COUNT_MAX


def test_a_lost_connection_is_noticed_without_a_turn(world: World) -> None:
    inbox = Inbox()
    world.pool.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)
    world.turns()

    world.server.stop()

    inbox.wait_for_kind(BookieDown)


def test_a_bookie_that_is_away_is_tried_with_pauses(world: World) -> None:
    inbox = Inbox()
    world.pool.set_addresses({"b-2": "tcp://127.0.0.1:1"})
    world.pool.subscribe("b-2", inbox)
    wait_until(lambda: len(inbox.news) >= 4, what="four attempts")

    assert world.turns() <= 3 * TURN_COUNT_MAX, "a few for each attempt"


def test_a_timeout_comes_when_it_is_due(world: World) -> None:
    world.echo.is_holding = True
    began_ms = monotonic_ms()

    reply = world.ask(timeout_ms=200).wait_for_kind(Reply)

    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, RequestTimeoutError)
    assert monotonic_ms() >= began_ms + 200
    assert world.poller.turn_count < 20


def test_a_pool_that_spins_polls_busily_after_an_event_and_sleeps_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = itertools.count(step=100)
    monkeypatch.setattr("zbk.transport.dealer.monotonic_us", lambda: next(ticks))
    made = World(idle_ms=60_000, spin_us=1_000)
    poller = made.poller
    try:
        made.ask().wait_for_kind(Reply)
        wait_until(lambda: poller.busy_count > 0 and poller.is_asleep(), what="a sleep")
        before = poller.busy_count

        assert before <= 10 * EVENT_COUNT_MAX, "ten looks at the clock end a busy wait"
        assert poller.is_asleep(), "an idle pool sleeps"
        assert made.turns() <= TURN_COUNT_MAX
        assert poller.busy_count > before, "the timer and its call were events"
    finally:
        made.close()


def test_a_busy_wait_ends_at_the_time_of_a_timer() -> None:
    made = World(idle_ms=60_000, spin_us=1_000_000)
    try:
        made.ask().wait_for_kind(Reply)
        done = threading.Event()
        began_ms = monotonic_ms()
        made.pool.call_at(began_ms + 20, done.set)

        assert done.wait(20)

        assert monotonic_ms() < began_ms + 900, "it waits no longer than the timer allows"
    finally:
        made.close()


def test_a_pool_does_not_spin_by_default(world: World) -> None:
    world.ask().wait_for_kind(Reply)
    busy_count = world.poller.busy_count  # a turn with commands left does not wait, either

    for _ in range(5):
        world.ask().wait_for_kind(Reply)

    assert world.poller.busy_count - busy_count <= 10
