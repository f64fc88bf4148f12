"""A bookie that has too much to do is slow, and no request fails for that; one that hangs fails."""

import threading
from collections.abc import Iterator

import pytest

from tests.support.scripted_bookie import ScriptedBookie, greeted
from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, Inbox, outgoing, pool
from zbk.errors import BookieUnavailableError, RequestTimeoutError
from zbk.system.clock import monotonic_ms
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, BookieUp, Reply
from zbk.wire.messages import Answer, Hello, LacAnswer, Message, Ping

TIMEOUT_MS = 1_000
REQUEST_COUNT = 16
PAUSE_S = 0.1
"""Between two answers: all of them take longer than a time-out."""


class SlowBookie:
    """Answers one request each ``PAUSE_S``, in order, until it hangs."""

    def __init__(self, credit_size: int = 1 << 20) -> None:
        self._credit_size = credit_size
        self._to_answer: list[Message] = []
        self._is_over = threading.Event()
        self.hangs_from = REQUEST_COUNT
        self.answered_count = 0
        self.bookie = ScriptedBookie(self._take)
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _take(self, message: Message) -> list[Answer]:
        if isinstance(message, Hello):
            return [greeted(message, credit_size=self._credit_size)]
        self._to_answer.append(message)
        return []

    def _work(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            if self._to_answer and self.answered_count < self.hangs_from:
                request = self._to_answer.pop(0)
                self.answered_count += 1
                self.bookie.say(LacAnswer(request_id=request.request_id, incarnation=1, lac=7))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(10)
        self.bookie.__exit__()


@pytest.fixture
def client() -> Iterator[BookiePool]:
    made = pool()
    yield made
    made.close()


def ask_all(client: BookiePool, slow: SlowBookie) -> Inbox:
    inbox = Inbox()
    client.set_addresses({BOOKIE_ID: slow.bookie.endpoint})
    for number in range(REQUEST_COUNT):
        client.request(outgoing(inbox, number, timeout_ms=TIMEOUT_MS))
    return inbox


def outcomes(inbox: Inbox) -> list[object]:
    wait_until(lambda: len(inbox.news) >= REQUEST_COUNT)
    return [one.outcome for one in inbox.news if isinstance(one, Reply)]


@pytest.mark.parametrize("credit_size", [1 << 20, 250], ids=["all at once", "two at a time"])
def test_nothing_fails_because_there_is_much_to_do(client: BookiePool, credit_size: int) -> None:
    slow = SlowBookie(credit_size)

    found = outcomes(ask_all(client, slow))

    assert all(isinstance(one, LacAnswer) for one in found), found
    slow.close()


def test_a_bookie_that_hangs_is_found_out_in_time_and_all_that_waits_fails(
    client: BookiePool,
) -> None:
    slow = SlowBookie(credit_size=250)
    slow.hangs_from = 3
    inbox = ask_all(client, slow)
    wait_until(lambda: slow.answered_count == 3)
    began_ms = monotonic_ms()

    found = outcomes(inbox)

    assert [type(one) for one in found[:3]] == [LacAnswer] * 3
    assert {type(one) for one in found[3:]} == {RequestTimeoutError, BookieUnavailableError}
    assert monotonic_ms() - began_ms < 5 * TIMEOUT_MS, "not a time-out for each two of them"
    slow.close()


def test_a_sink_that_gave_up_one_request_is_told_again_and_others_are_not(
    client: BookiePool,
) -> None:
    slow, one, other = SlowBookie(), Inbox(), Inbox()
    client.set_addresses({BOOKIE_ID: slow.bookie.endpoint})
    for inbox in (one, other):
        client.subscribe(BOOKIE_ID, inbox)
        inbox.wait_for_kind(BookieUp)
        inbox.forget()

    client.reset(BOOKIE_ID, one, RequestTimeoutError("an add", 5.0))
    client.reset(BOOKIE_ID, other, BookieUnavailableError(BOOKIE_ID, "was lost, some time ago"))

    one.wait_for_kind(BookieUp)
    client.request(outgoing(other))
    other.wait_for_kind(Reply)
    assert not any(isinstance(news, BookieUp | BookieDown) for news in other.news)
    slow.close()


def test_a_request_that_timed_out_gives_its_credit_back(client: BookiePool) -> None:
    """The bookie answers all others: the connection stays, and so did what that one had taken."""

    def script(message: Message) -> list[Answer]:
        match message:
            case Hello():
                return [greeted(message, credit_size=350)]
            case Ping():
                return []
        return [LacAnswer(request_id=message.request_id, incarnation=1, lac=7)]

    with ScriptedBookie(script) as bookie:
        client.set_addresses({BOOKIE_ID: bookie.endpoint})
        ping = Ping(request_id=0)
        client.request(
            outgoing(stuck := Inbox(), frames=(bytes(100),), timeout_ms=300, request=ping)
        )

        def has_timed_out() -> bool:
            client.request(outgoing(beside := Inbox()))
            beside.wait_for_kind(Reply)
            return bool(stuck.news)

        wait_until(has_timed_out, what="the time-out")
        late = stuck.wait_for_kind(Reply)
        assert isinstance(late, Reply)
        assert isinstance(late.outcome, RequestTimeoutError)

        client.request(outgoing(inbox := Inbox(), frames=(bytes(100),)))
        reply = inbox.wait_for_kind(Reply)
        assert isinstance(reply, Reply)
        assert isinstance(reply.outcome, LacAnswer)
        client.close()
