"""LacWatches: all tails of a client share one request to each bookie."""

from collections import deque
from collections.abc import Callable

from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.cluster.requests import Requests
from zbk.client.read.lac_watches import POLL_WAIT_MS, LacWatches
from zbk.errors import (
    BookieUnavailableError,
    ClientClosedError,
    NoSuchLedgerError,
    UnknownOperationError,
    ZbkError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.transport.events import News, Reply, Sink
from zbk.wire.messages import LacAnswer, LacsRisen, Message, ReadLac, WatchLacs, WatchRefusal

GONE = BookieUnavailableError("b1", "is gone")


class World(Requests):
    """A pool that does what it is told, and the sinks of tails."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Message, Sink, object]] = []
        self.soon: deque[Callable[[], None]] = deque()
        self.is_closed = False
        self.told: list[tuple[object, int | ZbkError]] = []
        self.delivery_count = 0
        self.watches = LacWatches(self, self.call_soon)

    def call_soon(self, callback: Callable[[], None]) -> bool:
        if not self.is_closed:
            self.soon.append(callback)
        return not self.is_closed

    def turn(self) -> None:
        """Do what the pool's thread does."""
        while self.soon:
            self.soon.popleft()()

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        assert isinstance(request, ReadLac | WatchLacs)
        assert request.wait_ms == wait_ms == POLL_WAIT_MS, "the time-out is longer than the wait"
        self.sent.append((bookie_id, request, box, key))

    def deliver(self, news: list[News]) -> None:
        self.delivery_count += 1
        for one in news:
            assert isinstance(one, Reply)
            outcome = one.outcome
            self.told.append((one.key, outcome.lac if isinstance(outcome, LacAnswer) else outcome))  # type: ignore[arg-type]

    def begin(self, *keys: str, bookie_id: str = "b1", known_lac: int = 3) -> list[int]:
        return [
            self.watches.begin(
                bookie_id,
                LedgerRequests(7, LedgerType.PD_JOURNAL, bytes(16)),
                known_lac,
                self,
                key,
            )
            for key in keys
        ]

    def request(self, position: int = -1) -> WatchLacs:
        request = self.sent[position][1]
        assert isinstance(request, WatchLacs)
        return request

    def answer(self, outcome: Message | ZbkError, position: int = -1) -> None:
        bookie_id, _, box, key = self.sent[position]
        box.deliver([Reply(bookie_id, key, outcome)])  # type: ignore[arg-type]


def numbers(request: WatchLacs) -> list[int]:
    return [one.number for one in request.begun]


def test_watches_that_begin_in_one_turn_leave_in_one_request_to_each_bookie() -> None:
    world = World()
    ours = world.begin("a", "b", "c")
    theirs = world.begin("d", bookie_id="b2")
    assert len(world.soon) == 1

    world.turn()

    assert [bookie_id for bookie_id, _, _, _ in world.sent] == ["b1", "b2"]
    assert [numbers(world.request(position)) for position in (0, 1)] == [ours, theirs]
    assert world.request(0).is_first


def test_what_has_risen_is_told_to_each_sink_in_one_go_and_the_rest_goes_on() -> None:
    world = World()
    first, second, third = world.begin("a", "b", "c")
    world.turn()

    refusal = NoSuchLedgerError(7)
    world.answer(
        LacsRisen(
            request_id=1,
            risen=[(first, 8)],
            refused=[WatchRefusal(third, refusal.code, list(refusal.fields()))],
        )
    )

    assert world.delivery_count == 1
    assert world.told[0] == ("a", 8)
    assert isinstance(world.told[1][1], NoSuchLedgerError)
    assert (len(world.sent), numbers(world.request())) == (2, [])
    world.answer(LacsRisen(request_id=2, risen=[(second, 9)]))
    assert world.told[-1] == ("b", 9)
    assert len(world.sent) == 2, "nothing is left to wait for"


def test_a_watch_that_is_dropped_is_told_nothing() -> None:
    world = World()
    first, _second = world.begin("a", "b")
    world.turn()
    world.watches.end(first)
    world.watches.end(first)
    world.turn()

    world.answer(LacsRisen(request_id=1, risen=[(first, 8)]))

    assert world.told == []
    assert world.request().ended == [first]


def test_a_bookie_that_is_gone_ends_all_watches_with_its_error() -> None:
    world = World()
    world.begin("a", "b")
    world.turn()

    world.answer(GONE)

    assert world.told == [("a", GONE), ("b", GONE)]
    assert len(world.sent) == 1
    world.begin("a")
    world.turn()
    assert world.request().is_first


def test_a_bookie_of_another_release_is_asked_for_each_ledger_by_itself() -> None:
    world = World()
    world.begin("a", "b")
    world.turn()

    world.answer(UnknownOperationError("unknown operation 'watch_lacs'"))

    polls = [request for _, request, _, _ in world.sent[1:]]
    assert [type(poll) for poll in polls] == [ReadLac, ReadLac]
    assert world.told == []
    world.answer(LacAnswer(request_id=1, lac=9), 1)
    assert world.told == [("a", 9)]
    world.begin("c")
    world.turn()
    assert isinstance(world.sent[-1][1], ReadLac)

    world.answer(GONE)  # its connection was lost: it may have been upgraded
    assert world.told[-1] == ("c", GONE)
    world.begin("d")
    world.turn()
    assert isinstance(world.sent[-1][1], WatchLacs)


def test_an_answer_of_another_kind_is_an_error_of_that_bookie() -> None:
    world = World()
    world.begin("a")
    world.turn()

    world.answer(LacAnswer(request_id=1, lac=9))

    (key, error) = world.told[0]
    assert key == "a"
    assert isinstance(error, BookieUnavailableError)


def test_a_client_that_was_closed_says_so() -> None:
    world = World()
    world.is_closed = True

    world.begin("a")

    assert isinstance(world.told[0][1], ClientClosedError)
