"""The threads of the ROUTER front and the DEALER pool: timers, calls, wake-ups, answers."""

import queue
import threading
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, Echo, Inbox, front, outgoing, pool
from zbk.system.clock import monotonic_ms
from zbk.transport import connection_watch
from zbk.transport.dealer import BookiePool
from zbk.transport.events import Reply
from zbk.transport.inbound import Inbound
from zbk.transport.router import RouterFront
from zbk.wire.messages import LacAnswer


def test_a_timer_that_asks_again_at_once_holds_up_nothing(client: BookiePool) -> None:
    inbox = Inbox()
    is_over = threading.Event()

    def again() -> None:
        if not is_over.is_set():
            client.call_at(monotonic_ms(), again)

    client.call_at(monotonic_ms(), again)
    client.request(outgoing(inbox, "mine"))

    try:
        assert isinstance(inbox.wait_for_kind(Reply), Reply)
    finally:
        is_over.set()


def test_timers_call_back_in_the_order_of_their_times_with_and_without_connections(
    client: BookiePool,
) -> None:
    called: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()

    def note(name: str) -> Callable[[], None]:
        return lambda: called.put((name, monotonic_ms()))

    for _ in range(2):
        is_noted = threading.Event()  # the pool's thread looks at none before it knows all three
        client.call_soon(lambda told=is_noted: told.wait(10))  # type: ignore[misc] # a default binds the loop's value
        began_ms = monotonic_ms()
        client.call_at(began_ms + 60, note("late"))
        client.call_at(began_ms + 5, note("early"))
        client.call_at(began_ms - 5, note("past"))
        is_noted.set()

        times = [called.get(timeout=10) for _ in range(3)]
        assert [name for name, _ in times] == ["past", "early", "late"]
        assert times[1][1] >= began_ms + 5
        assert times[2][1] >= began_ms + 60

        client.request(outgoing(inbox := Inbox()))  # from now on there is a connection
        inbox.wait_for_kind(Reply)


def test_a_timer_may_send_a_request(client: BookiePool) -> None:
    inbox = Inbox()

    client.call_at(monotonic_ms(), lambda: client.request(outgoing(inbox, "timed")))

    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    assert reply.key == "timed"


def test_what_is_called_soon_runs_in_the_thread_of_the_pool_and_may_send(
    client: BookiePool,
) -> None:
    inbox, threads = Inbox(), [threading.current_thread().name]

    def send() -> None:
        threads.append(threading.current_thread().name)
        client.call_soon(lambda: client.request(outgoing(inbox, "soon")))

    assert client.call_soon(send)

    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    assert reply.key == "soon"
    assert threads[1:] == ["zbk-dealer"]


def test_a_pool_that_has_ended_calls_nobody(client: BookiePool) -> None:
    client.close()

    assert not client.call_soon(lambda: pytest.fail("it has no thread"))


def test_nobody_is_woken_for_what_its_own_thread_sends(
    monkeypatch: pytest.MonkeyPatch, client: BookiePool, server: RouterFront
) -> None:
    """The front answers inside of ``deliver``; the pool's thread sends when it is called."""
    inbox = Inbox()
    client.request(outgoing(inbox, "to connect"))
    inbox.wait_for_kind(Reply)
    woken: list[str] = []
    for sleeper in (client, server):
        wake = sleeper._wakeup.wake

        def note(wake: Callable[[], None] = wake) -> None:
            woken.append(threading.current_thread().name)
            wake()

        monkeypatch.setattr(sleeper._wakeup, "wake", note)

    for number in range(20):
        request = outgoing(inbox, number)
        client.call_soon(partial(client.request, request))
    wait_until(lambda: len(inbox.news) == 21, what="all replies")

    assert set(woken) == {threading.current_thread().name}


def test_a_request_that_comes_while_another_thread_sends_is_taken_in_at_once(
    monkeypatch: pytest.MonkeyPatch, client: BookiePool, server: RouterFront, echo: Echo
) -> None:
    """To send may take the news from the descriptor that the front waits for."""
    monkeypatch.setattr(connection_watch, "POLL_MS", 60_000)
    echo.is_holding = True
    inbox, looked = Inbox(), threading.Event()
    client.request(outgoing(inbox))
    assert echo.arrived.acquire(timeout=10)
    has_news = server._has_news

    def look() -> bool:
        if threading.current_thread() is not server._thread:
            return True  # as if one had come just now
        looked.set()
        return has_news()

    monkeypatch.setattr(server, "_has_news", look)
    echo.answer(echo.held.pop())

    inbox.wait_for_kind(Reply)
    assert looked.wait(10), "the front's own thread looks for it"


def test_threads_that_send_answers_do_not_disturb_each_other() -> None:
    echo = Echo(is_holding=True)
    server = front(echo)
    stop = threading.Event()

    def answer_held() -> None:
        while not stop.is_set():
            if echo.arrived.acquire(timeout=0.05):
                echo.answer(echo.held.pop())

    failures: list[object] = []

    def ask(size: int) -> None:
        client = pool()
        client.set_addresses({BOOKIE_ID: server.endpoint})
        for turn in range(300):
            inbox = Inbox()
            client.request(outgoing(inbox, turn, frames=(bytes(size),)))
            reply = inbox.wait_for_kind(Reply)
            assert isinstance(reply, Reply)
            if not isinstance(reply.outcome, LacAnswer) or reply.frames != (bytes(size),):
                failures.append(reply.outcome)
        client.close()

    answerers = [threading.Thread(target=answer_held) for _ in range(3)]
    askers = [threading.Thread(target=ask, args=(size,)) for size in (0, 10, 1_000, 100_000)]
    for thread in (*answerers, *askers):
        thread.start()
    for thread in askers:
        thread.join(60)
    stop.set()
    for thread in answerers:
        thread.join(10)
    server.stop()

    assert failures == []
    assert echo.failures == []


def test_answers_of_other_threads_while_the_front_stops_are_sent_or_dropped(
    client: BookiePool, server: RouterFront, echo: Echo
) -> None:
    echo.is_holding = True
    inbox = Inbox()
    for number in range(200):
        client.request(outgoing(inbox, number))
    for _ in range(200):
        assert echo.arrived.acquire(timeout=10)

    def answer(some: list[Inbound]) -> None:
        for one in some:
            echo.answer(one)

    threads = [
        threading.Thread(target=answer, args=(some,)) for some in (echo.held[::2], echo.held[1::2])
    ]

    for thread in threads:
        thread.start()
    server.stop()
    for thread in threads:
        thread.join(10)

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 199)


def test_after_it_has_tried_again_to_send_the_front_looks_for_requests(
    monkeypatch: pytest.MonkeyPatch, server: RouterFront
) -> None:
    """To send may take the news of a request: it would wait for ``POLL_MS``."""
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    retry, has_news = server._sender.retry, server._has_news

    def note_retry() -> None:
        retry()
        done.put("sent")

    def note_look() -> bool:
        done.put("looked")
        return has_news()

    monkeypatch.setattr(connection_watch, "POLL_MS", 60_000)
    monkeypatch.setattr(server._sender, "retry", note_retry)
    monkeypatch.setattr(server, "_has_news", note_look)
    server._peers.backlogged.add(b"a peer that is gone")
    server._wakeup.wake()

    while done.get(timeout=10) != "sent":
        """It looked before, too."""
    assert done.get(timeout=10) == "looked"
