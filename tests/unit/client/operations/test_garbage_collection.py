"""Following a round of garbage collection from outside."""

from collections.abc import Iterator

import pytest

from zbk.client.cluster.requests import Requests
from zbk.client.operations.garbage_collection import collect_garbage
from zbk.errors import BookieUnavailableError, RequestTimeoutError, ZbkError
from zbk.transport.events import Reply
from zbk.wire.messages import Answer, CollectGarbage, GarbageStatus, Message


class FakeRequests(Requests):
    """Answers with one outcome after the other."""

    def __init__(self, outcomes: Iterator[Answer | ZbkError]) -> None:
        self.outcomes = outcomes
        self.asked: list[bool] = []

    def ask(self, bookie_id: str, request: Message, frames: tuple[bytes, ...] = ()) -> Reply:
        assert isinstance(request, CollectGarbage)
        self.asked.append(request.is_round_wanted)
        return Reply(bookie_id=bookie_id, key=bookie_id, outcome=next(self.outcomes), frames=())


def status(awaited: int, ended: int) -> GarbageStatus:
    return GarbageStatus(request_id=0, awaited_round=awaited, ended_round=ended)


def test_the_round_that_was_asked_for_is_waited_for_and_no_later_one() -> None:
    requests = FakeRequests(iter([status(4, 2), status(5, 3), status(5, 4)]))

    assert collect_garbage(requests, "b1", 10.0) == status(5, 4)
    assert requests.asked == [True, False, False]


def test_a_bookie_that_is_not_there_is_an_error() -> None:
    requests = FakeRequests(iter([status(4, 2), BookieUnavailableError("b1", "gone")]))

    with pytest.raises(BookieUnavailableError):
        collect_garbage(requests, "b1", 10.0)


def test_a_round_that_does_not_end_in_time_is_given_up() -> None:
    requests = FakeRequests(iter([status(4, 2), status(5, 3)]))

    with pytest.raises(RequestTimeoutError, match="garbage collection at bookie b1"):
        collect_garbage(requests, "b1", 0.0)
