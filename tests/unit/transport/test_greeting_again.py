"""A bookie forgets a silent connection; the client greets again and repeats what was refused."""

from collections.abc import Iterator

import pytest

from tests.support.scripted_bookie import ScriptedBookie, greeted
from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, Echo, Inbox, front, outgoing, pool
from zbk.errors import HelloRequiredError, WrongBookieError
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, BookieUp, Reply
from zbk.transport.router import RouterFront
from zbk.wire import codec
from zbk.wire.messages import Answer, Hello, LacAnswer, Message, Refused


@pytest.fixture
def server(echo: Echo) -> Iterator[RouterFront]:
    made = front(echo, peer_idle_ms=200)
    yield made
    made.stop()


def be_forgotten(server: RouterFront) -> None:
    wait_until(lambda: server.counts.peer_count == 0, what="the bookie forgets the connection")


def test_a_forgotten_connection_greets_again_and_repeats_the_request(
    client: BookiePool, server: RouterFront
) -> None:
    inbox = Inbox()
    client.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)
    for _ in range(2):
        be_forgotten(server)
        inbox.forget()

        client.request(outgoing(inbox, frames=(b"abc",)))

        reply = inbox.wait_for_kind(Reply)
        assert isinstance(reply, Reply)
        assert isinstance(reply.outcome, LacAnswer)
        assert reply.frames == (b"abc",)
        assert inbox.news == [reply], "the connection was there all the time"


def test_all_that_was_refused_is_repeated_in_order_before_what_came_later(
    client: BookiePool, server: RouterFront
) -> None:
    inbox = Inbox()
    client.request(outgoing(inbox, "first"))
    inbox.wait_for_kind(Reply)
    be_forgotten(server)
    inbox.forget()

    for number in range(500):
        client.request(outgoing(inbox, number))

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 499)
    replies = [one for one in inbox.news if isinstance(one, Reply)]
    assert [one.key for one in replies] == list(range(500))
    assert all(isinstance(one.outcome, LacAnswer) for one in replies)


def test_a_connection_that_waits_for_an_answer_is_not_forgotten(
    client: BookiePool, server: RouterFront, echo: Echo
) -> None:
    echo.is_holding = True
    inbox, silent, silent_inbox = Inbox(), pool(), Inbox()
    silent.set_addresses({BOOKIE_ID: server.endpoint})
    client.request(outgoing(inbox))
    assert echo.arrived.acquire(timeout=10)
    silent.subscribe(BOOKIE_ID, silent_inbox)
    silent_inbox.wait_for_kind(BookieUp)
    wait_until(lambda: server.counts.peer_count == 1, what="the silent one is forgotten")

    echo.answer(echo.held.pop())

    assert isinstance(outcome_in(inbox), LacAnswer)
    silent.close()


def hello_required(request: Message) -> Refused:
    return codec.refusal(request.request_id, 1, HelloRequiredError("say HELLO first"))


def test_a_bookie_that_forgets_again_and_again_is_an_error_and_no_endless_loop() -> None:
    def forgetful(message: Message) -> list[Answer]:
        return [greeted(message) if isinstance(message, Hello) else hello_required(message)]

    inbox, client = Inbox(), pool()
    with ScriptedBookie(forgetful) as bookie:
        client.set_addresses({BOOKIE_ID: bookie.endpoint})
        client.subscribe(BOOKIE_ID, inbox)
        inbox.wait_for_kind(BookieUp)

        client.request(outgoing(inbox))

        assert isinstance(outcome_in(inbox), HelloRequiredError)
        inbox.wait_for_kind(BookieDown)
        client.close()


def test_a_bookie_that_is_in_another_life_at_the_second_greeting_is_a_new_connection() -> None:
    incarnations = iter(range(1, 100))

    def restarting(message: Message) -> list[Answer]:
        if isinstance(message, Hello):
            return [greeted(message, incarnation=next(incarnations))]
        return [hello_required(message)]

    inbox, client = Inbox(), pool()
    with ScriptedBookie(restarting) as bookie:
        client.set_addresses({BOOKIE_ID: bookie.endpoint})
        client.subscribe(BOOKIE_ID, inbox)
        inbox.wait_for_kind(BookieUp)

        client.request(outgoing(inbox))

        assert isinstance(outcome_in(inbox), WrongBookieError)
        inbox.wait_for_kind(BookieDown)
        inbox.wait_for(lambda one: isinstance(one, BookieUp) and one.incarnation == 3)
        client.close()


def test_a_second_greeting_that_is_not_answered_ends_the_connection_in_time() -> None:
    greetings = iter([True])

    def silent(message: Message) -> list[Answer]:
        if isinstance(message, Hello):
            return [greeted(message)] if next(greetings, False) else []
        return [hello_required(message)]

    inbox, client = Inbox(), pool(connect_timeout_ms=200)
    with ScriptedBookie(silent) as bookie:
        client.set_addresses({BOOKIE_ID: bookie.endpoint})

        client.request(outgoing(inbox, timeout_ms=600_000))

        assert "no answer from" in str(outcome_in(inbox))
        client.close()


def test_what_the_bookie_may_have_done_is_not_repeated_when_a_second_greeting_fails() -> None:
    """A request that needs its own try is repeated only if no connection had carried it."""
    greetings = iter([True])

    def refusing(message: Message) -> list[Answer]:
        if not isinstance(message, Hello):
            return [] if message.request_id == 2 else [hello_required(message)]
        if next(greetings, False):
            return [greeted(message)]
        return [codec.refusal(message.request_id, 1, WrongBookieError("another one"))]

    inbox, client = Inbox(), pool()
    with ScriptedBookie(refusing) as bookie:
        client.set_addresses({BOOKIE_ID: bookie.endpoint})
        for key in ("done", "refused"):
            request = outgoing(inbox, key)
            request.needs_own_try = True
            client.request(request)
        inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == "refused")
        client.close()

    outcomes = [one.outcome for one in inbox.news if isinstance(one, Reply)]
    assert [type(one) for one in outcomes] == [WrongBookieError] * 2
    assert len(bookie.seen) == 4, "two greetings, and each request once"


def outcome_in(inbox: Inbox) -> object:
    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    return reply.outcome
