"""Following a pass of the scrubber from outside."""

from collections.abc import Iterator

import pytest

from zbk.client.cluster.requests import Requests
from zbk.client.operations.scrub import ask_scrub, follow_scrub
from zbk.errors import (
    BookieUnavailableError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.transport.events import Reply
from zbk.wire.messages import Answer, Message, Pong, Scrub, ScrubStatus


class FakeRequests(Requests):
    """Answers with one outcome after the other."""

    def __init__(self, *outcomes: Answer | ZbkError) -> None:
        self.outcomes: Iterator[Answer | ZbkError] = iter(outcomes)
        self.asked: list[bool] = []

    def ask(self, bookie_id: str, request: Message, frames: tuple[bytes, ...] = ()) -> Reply:
        assert isinstance(request, Scrub)
        self.asked.append(request.is_pass_wanted)
        return Reply(bookie_id=bookie_id, key=bookie_id, outcome=next(self.outcomes), frames=())


def status(ended: int, share: float = 0.0, incarnation: int = 1) -> ScrubStatus:
    return ScrubStatus(
        request_id=0,
        incarnation=incarnation,
        awaited_pass=3,
        begun_pass=3,
        ended_pass=ended,
        share=share,
    )


def test_a_pass_is_followed_to_its_end_and_told_of_on_the_way() -> None:
    requests = FakeRequests(status(2), status(2, 0.5), status(3))
    shares: list[float] = []

    begun = ask_scrub(requests, "b1", is_pass_wanted=True)
    ended = follow_scrub(requests, "b1", begun, 10.0, lambda one: shares.append(one.share))

    assert ended == status(3)
    assert (requests.asked, shares) == ([True, False, False], [0.5, 0.0])


def test_a_bookie_that_restarts_has_lost_the_pass() -> None:
    requests = FakeRequests(status(2, incarnation=2))

    with pytest.raises(BookieUnavailableError, match="restarted"):
        follow_scrub(requests, "b1", status(2), 10.0, lambda _one: None)


def test_a_pass_that_does_not_end_in_time_goes_on_without_us() -> None:
    requests = FakeRequests(status(2))

    with pytest.raises(RequestTimeoutError, match="the scrub of bookie b1"):
        follow_scrub(requests, "b1", status(2), 0.0, lambda _one: None)


def test_an_error_or_another_answer_is_an_error() -> None:
    with pytest.raises(BookieUnavailableError):
        ask_scrub(FakeRequests(BookieUnavailableError("b1", "gone")), "b1", is_pass_wanted=True)
    with pytest.raises(BookieUnavailableError, match="another kind"):
        ask_scrub(FakeRequests(Pong(request_id=0)), "b1", is_pass_wanted=True)
