"""The ROUTER front and the DEALER pool against each other, over real loopback sockets."""

import queue
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import msgpack
import pytest
import zmq

from tests.support.raw_peers import RawPeer
from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, INSTANCE_ID, Echo, Inbox, front, outgoing, pool
from zbk.errors import (
    BookieError,
    BookieUnavailableError,
    BusyError,
    ClientClosedError,
    HelloRequiredError,
    MalformedMessageError,
    RequestTimeoutError,
    UnknownOperationError,
    UnsupportedVersionError,
    WrongBookieError,
    ZbkError,
)
from zbk.system.clock import monotonic_ms
from zbk.transport import connection_watch, peers
from zbk.transport.connections import ConnectionLimits
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, BookieUp, Reply
from zbk.transport.inbound import Inbound
from zbk.transport.router import RouterFront
from zbk.wire import codec
from zbk.wire.messages import (
    VERSION_MAX,
    GetBookieInfo,
    Hello,
    HelloAnswer,
    LacAnswer,
    Ping,
    Pong,
    Refused,
)


def error_of(reply: object) -> ZbkError:
    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, ZbkError)
    return reply.outcome


def say(socket: zmq.Socket[bytes], *frames: bytes) -> list[bytes]:
    socket.send_multipart(frames)
    return socket.recv_multipart()


def refused(frames: list[bytes]) -> type[ZbkError]:
    answer = codec.decode_answer(frames[0])
    assert isinstance(answer, Refused)
    return type(codec_error(answer))


def codec_error(answer: Refused) -> ZbkError:
    from zbk.errors import from_wire  # noqa: PLC0415 - kept beside its only use

    return from_wire(answer.code, tuple(answer.fields))


def test_a_request_comes_back_with_its_frames(client: BookiePool) -> None:
    inbox = Inbox()

    client.request(outgoing(inbox, "mine", frames=(b"abc", b"")))

    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    assert reply.key == "mine"
    assert isinstance(reply.outcome, LacAnswer)
    assert reply.outcome.incarnation == 1
    assert reply.frames == (b"abc", b"")


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


def test_a_thousand_requests_each_get_one_reply_in_order(client: BookiePool) -> None:
    inbox = Inbox()

    for number in range(1000):
        client.request(outgoing(inbox, number, frames=(b"x" * 1000,)))

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 999)
    assert [one.key for one in inbox.news if isinstance(one, Reply)] == list(range(1000))


def test_a_subscriber_hears_of_the_connection_and_of_its_loss(
    client: BookiePool, server: RouterFront
) -> None:
    inbox = Inbox()
    client.subscribe(BOOKIE_ID, inbox)
    up = inbox.wait_for_kind(BookieUp)
    assert up == BookieUp(BOOKIE_ID, 1, 1 << 20, version=VERSION_MAX)

    server.stop()

    down = inbox.wait_for_kind(BookieDown)
    assert isinstance(down, BookieDown)
    assert "lost" in str(down.error)


def test_a_host_that_drops_packets_gives_no_answer_and_does_not_refuse() -> None:
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for one in (first, second):  # the queue is full: the kernel drops what comes next
            one.settimeout(0)
            one.connect_ex(listener.getsockname())
        host, port = listener.getsockname()
        client = pool(connect_timeout_ms=300)
        client.set_addresses({BOOKIE_ID: f"tcp://{host}:{port}"})
        inbox = Inbox()

        client.subscribe(BOOKIE_ID, inbox)

        down = inbox.wait_for_kind(BookieDown)
        assert isinstance(down, BookieDown)
        assert f"no answer from tcp://{host}:{port} within 0.3 s" in str(down.error)
        client.close()


def test_who_accepts_a_connection_and_closes_it_does_not_refuse_it() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        host, port = listener.getsockname()
        client = pool()
        client.set_addresses({BOOKIE_ID: f"tcp://{host}:{port}"})
        inbox = Inbox()

        client.subscribe(BOOKIE_ID, inbox)
        listener.accept()[0].close()

        down = inbox.wait_for_kind(BookieDown)
        assert isinstance(down, BookieDown)
        assert f"tcp://{host}:{port} closed the connection before" in str(down.error)
        client.close()


def test_a_port_where_nobody_listens_refuses() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host, port = taken.getsockname()
        client = pool()
        client.set_addresses({BOOKIE_ID: f"tcp://{host}:{port}"})
        inbox = Inbox()

        client.subscribe(BOOKIE_ID, inbox)

        down = inbox.wait_for_kind(BookieDown)
        assert isinstance(down, BookieDown)
        assert f"the connection to tcp://{host}:{port} was refused" in str(down.error)
        client.close()


def test_a_lost_connection_fails_what_is_outstanding_at_once() -> None:
    echo, inbox, client = Echo(is_holding=True), Inbox(), pool()
    server = front(echo)
    client.set_addresses({BOOKIE_ID: server.endpoint})
    client.request(outgoing(inbox, timeout_ms=600_000))
    assert echo.arrived.acquire(timeout=10)

    server.stop()

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), BookieUnavailableError)
    client.close()


def test_a_connection_is_made_again_and_tells_the_new_incarnation() -> None:
    inbox, client = Inbox(), pool()
    first = front(Echo())
    client.set_addresses({BOOKIE_ID: first.endpoint})
    client.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)

    first.stop()
    inbox.wait_for_kind(BookieDown)
    second = front(Echo(), endpoint=first.endpoint, incarnation=2)

    inbox.wait_for(lambda one: isinstance(one, BookieUp) and one.incarnation == 2)
    client.close()
    second.stop()


def test_a_moved_bookie_is_found_at_its_new_address() -> None:
    inbox, client = Inbox(), pool()
    first, second = front(Echo()), front(Echo(), incarnation=2)
    client.set_addresses({BOOKIE_ID: first.endpoint})
    client.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)

    client.set_addresses({BOOKIE_ID: second.endpoint})
    first.stop()

    inbox.wait_for(lambda one: isinstance(one, BookieUp) and one.incarnation == 2)
    client.close()
    second.stop()


def test_an_unanswered_request_times_out() -> None:
    echo, inbox, client = Echo(is_holding=True), Inbox(), pool()
    server = front(echo)
    client.set_addresses({BOOKIE_ID: server.endpoint})

    client.request(outgoing(inbox, timeout_ms=100))

    error = error_of(inbox.wait_for_kind(Reply))
    assert isinstance(error, RequestTimeoutError)
    assert error.outcome == "unknown"
    client.close()
    server.stop()


def test_nobody_listens_there(client: BookiePool) -> None:
    inbox = Inbox()
    client.set_addresses({"b-2": "tcp://127.0.0.1:1"})

    client.request(outgoing(inbox, bookie_id="b-2"))

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), BookieUnavailableError)


def test_an_unregistered_bookie_fails_at_once(client: BookiePool) -> None:
    inbox = Inbox()

    client.request(outgoing(inbox, bookie_id="b-unknown"))

    assert "is not registered" in str(error_of(inbox.wait_for_kind(Reply)))


def test_another_bookie_at_the_address_is_refused(client: BookiePool, server: RouterFront) -> None:
    inbox = Inbox()
    client.set_addresses({"b-2": server.endpoint})

    client.request(outgoing(inbox, bookie_id="b-2"))

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), WrongBookieError)


def test_a_client_of_another_cluster_is_refused(server: RouterFront) -> None:
    inbox, client = Inbox(), pool(instance_id="cluster-2")
    client.set_addresses({BOOKIE_ID: server.endpoint})

    client.request(outgoing(inbox))

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), WrongBookieError)
    client.close()


def test_a_closed_pool_fails_what_it_had_and_what_comes_later() -> None:
    echo, inbox, client = Echo(is_holding=True), Inbox(), pool()
    server = front(echo)
    client.set_addresses({BOOKIE_ID: server.endpoint})
    client.request(outgoing(inbox, "early"))
    assert echo.arrived.acquire(timeout=10)

    client.close()
    client.request(outgoing(inbox, "late"))

    assert [type(error_of(one)) for one in inbox.news] == [ClientClosedError, ClientClosedError]
    server.stop()


def test_the_client_keeps_within_the_credit_and_all_arrives() -> None:
    echo, inbox, client = Echo(), Inbox(), pool()
    server = front(echo, credit_size=10_000)
    client.set_addresses({BOOKIE_ID: server.endpoint})

    for number in range(50):
        client.request(outgoing(inbox, number, frames=(b"x" * 4_000,)))

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 49)
    assert all(isinstance(one.outcome, LacAnswer) for one in inbox.news if isinstance(one, Reply))
    client.close()
    server.stop()


def test_a_peer_that_ignores_its_credit_is_told_busy(raw: zmq.Socket[bytes], echo: Echo) -> None:
    echo.is_holding = True
    say(raw, codec.encode(Hello(request_id=1)))
    info = codec.encode(GetBookieInfo(request_id=2, incarnation=1))

    raw.send_multipart([info, b"x" * 900_000])
    again = codec.encode(GetBookieInfo(request_id=3, incarnation=1))

    assert refused(say(raw, again, b"x" * 900_000)) is BusyError


def test_an_answer_gives_back_what_its_request_has_taken_of_the_bookie() -> None:
    """In all more is sent than the bookie may have in flight at once."""
    size = 32 << 20
    echo, client = Echo(is_holding=True), pool()
    server = front(echo, credit_size=2 * size, message_size_max=2 * size)
    client.set_addresses({BOOKIE_ID: server.endpoint})

    for _ in range(peers.IN_FLIGHT_SIZE_MAX // size + 1):
        client.request(outgoing(inbox := Inbox(), frames=(bytes(size),)))
        assert echo.arrived.acquire(timeout=10), "it was refused"
        echo.answer(echo.held.pop(), ())
        reply = inbox.wait_for_kind(Reply)
        assert isinstance(reply, Reply)
        assert isinstance(reply.outcome, LacAnswer)

    client.close()
    server.stop()


def test_an_answer_gives_back_what_its_request_has_taken_of_the_connection(
    client: BookiePool, server: RouterFront, echo: Echo
) -> None:
    echo.is_holding = True
    inbox = Inbox()
    for number in range(5):
        client.request(outgoing(inbox, number, frames=(b"x" * 100,)))
    wait_until(lambda: len(echo.held) == 5)
    (peer,) = server._peers.by_name.values()
    assert peer.in_flight_count == 5
    assert peer.in_flight_size == sum(one.size for one in echo.held)

    for one in echo.held:
        echo.answer(one)

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 4)
    assert (peer.in_flight_count, peer.in_flight_size) == (0, 0)


def test_nothing_is_served_before_hello(raw: zmq.Socket[bytes]) -> None:
    request = codec.encode(GetBookieInfo(request_id=5, incarnation=1))

    assert refused(say(raw, request)) is HelloRequiredError


def test_an_earlier_incarnation_is_refused(raw: zmq.Socket[bytes]) -> None:
    say(raw, codec.encode(Hello(request_id=1)))

    assert refused(say(raw, codec.encode(Ping(request_id=2, incarnation=99)))) is WrongBookieError


def test_ping_is_answered(raw: zmq.Socket[bytes]) -> None:
    say(raw, codec.encode(Hello(request_id=1)))

    answer = codec.decode_answer(say(raw, codec.encode(Ping(request_id=2, incarnation=1)))[0])

    assert isinstance(answer, Pong)


@pytest.mark.parametrize(
    ("header", "error"),
    [
        (msgpack.packb({"op": "explode", "request_id": 9}), UnknownOperationError),
        (msgpack.packb({"op": "add", "request_id": 9}), MalformedMessageError),
        (msgpack.packb({"op": "hello", "request_id": 9, "magic": "xyz"}), MalformedMessageError),
        (
            msgpack.packb({"op": "hello", "request_id": 9, "version_min": 7, "version_max": 9}),
            UnsupportedVersionError,
        ),
    ],
    ids=["unknown operation", "missing fields", "wrong magic", "future version"],
)
def test_what_names_a_request_is_refused_with_the_reason(
    raw: zmq.Socket[bytes], header: bytes, error: type[ZbkError]
) -> None:
    assert refused(say(raw, header)) is error


def test_garbage_is_counted_and_hurts_nobody(
    raw: zmq.Socket[bytes], client: BookiePool, server: RouterFront
) -> None:
    """All of it is less than a connection may send ahead of its HELLO (``LOBBY_SIZE_MAX``)."""
    for frames in (
        [b""],
        [b"\xff" * 100],
        [b"a", b"b", b"c", b"d", b"e", b"f"],
        [msgpack.packb([1, 2, 3])],
        [b"\x93" * 20_000],
        [b"\xdf\xff\xff\xff\xff"],
        [b"x" * 30_000],
    ):
        raw.send_multipart(frames)
    inbox = Inbox()

    client.request(outgoing(inbox))
    inbox.wait_for_kind(Reply)
    answer = codec.decode_answer(say(raw, codec.encode(Hello(request_id=1)))[0])

    assert isinstance(answer, HelloAnswer)
    assert answer.instance_id == INSTANCE_ID
    assert server.counts.refused_count == 7


def test_an_oversized_frame_ends_only_its_own_connection(
    raw: zmq.Socket[bytes], client: BookiePool
) -> None:
    raw.send_multipart([b"x" * (2 << 20)])
    inbox = Inbox()

    client.request(outgoing(inbox))

    assert isinstance(inbox.wait_for_kind(Reply), Reply)


def test_a_hello_too_many_is_refused_and_those_who_are_there_stay() -> None:
    server = front(Echo(), limits=ConnectionLimits(greeted_max=2, lobby_max=9, handshake_ms=5_000))
    context = zmq.Context()
    peers = []
    for _ in range(3):
        peer = context.socket(zmq.DEALER)
        peer.setsockopt(zmq.RCVTIMEO, 10_000)
        peer.connect(server.endpoint)
        peers.append(peer)
    hello, ping = codec.encode(Hello(request_id=1)), codec.encode(Ping(request_id=2, incarnation=1))
    for peer in peers[:2]:
        say(peer, hello)

    assert refused(say(peers[2], hello)) is BusyError
    for peer in peers[:2]:
        assert isinstance(codec.decode_answer(say(peer, ping)[0]), Pong)
    peers[0].close(linger=0)
    wait_until(lambda: server.counts.peer_count == 1, what="the end of a connection")
    assert isinstance(codec.decode_answer(say(peers[2], hello)[0]), HelloAnswer)
    context.destroy(linger=0)
    server.stop()


@pytest.mark.parametrize("is_greeting", [False, True], ids=["mute", "after the greeting"])
def test_a_connection_that_says_no_hello_in_time_ends(*, is_greeting: bool) -> None:
    server = front(Echo(), limits=ConnectionLimits(greeted_max=9, lobby_max=9, handshake_ms=100))
    with RawPeer(server.endpoint, is_greeting=is_greeting) as peer:
        peer.wait_until_ended()

    wait_until(lambda: server.counts.connection_count == 0, what="the end of the connection")
    server.stop()


@pytest.mark.parametrize("is_greeting", [False, True], ids=["mute", "after the greeting"])
def test_silent_connections_by_the_hundred_leave_clients_alone(*, is_greeting: bool) -> None:
    """None of them is late: the lobby has room for eight."""
    limits = ConnectionLimits(greeted_max=4, lobby_max=8, handshake_ms=600_000)
    server, early, late = front(Echo(), limits=limits), pool(), pool()
    early.set_addresses({BOOKIE_ID: server.endpoint})
    early.request(outgoing(inbox := Inbox()))
    inbox.wait_for_kind(Reply)
    early.subscribe(BOOKIE_ID, inbox)

    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(RawPeer(server.endpoint, is_greeting=is_greeting))
        late.set_addresses({BOOKIE_ID: server.endpoint})
        late.request(outgoing(late_inbox := Inbox()))
        early.request(outgoing(inbox, "again"))

        inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == "again")
        late_inbox.wait_for(lambda one: isinstance(one.outcome, LacAnswer))  # type: ignore[union-attr]
        wait_until(lambda: server.counts.connection_count <= 10, what="the end of the silent ones")
    assert not any(isinstance(one, BookieDown) for one in inbox.news)
    for one in (early, late):
        one.close()
    server.stop()


def test_a_taken_port_is_said_clearly(server: RouterFront) -> None:
    with pytest.raises(BookieError, match="another bookie"):
        front(Echo(), endpoint=server.endpoint)


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
