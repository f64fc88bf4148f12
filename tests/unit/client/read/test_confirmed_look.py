"""ConfirmedLook: what comes of the metadata after a look, and late replies of bookies."""

from collections.abc import Callable

import pytest

from tests.support.ledgers import metadata_maker
from zbk.client.cluster.ledger_calls import LedgerContext, LedgerRequests
from zbk.client.cluster.requests import Requests
from zbk.client.read.confirmed_look import ConfirmedLook
from zbk.client.read.metadata_source import MetadataSource
from zbk.config import ClientConfig
from zbk.errors import (
    BookieUnavailableError,
    ClientClosedError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.transport.events import Reply, Sink
from zbk.wire.messages import LacAnswer, Message, Pong, ReadLac

OPEN = metadata_maker()(7)
MOVED = OPEN.with_replaced_bookie(0, "b1", "new")
CLOSED = OPEN.with_closed(9, 0)
SILENT = MetadataUnavailableError("zk://x", "no answer")


class World(Requests, MetadataSource):
    """Bookies that say a LAC at once, or nothing; a metadata store that answers on cue."""

    def __init__(self) -> None:
        self.lac = 3
        self.outcome: ZbkError | Pong | None = None  # of bookies, in place of the LAC
        self.is_silent = False
        self.asked: list[str] = []
        self.late: list[Callable[[], None]] = []
        self.store: list[Callable[[LedgerMetadata | ZbkError], None]] = []
        self.store_answer: LedgerMetadata | ZbkError | None = OPEN
        self.usability: ZbkError | None = None
        requests = LedgerRequests.of(OPEN, b"k" * 16)
        digest = digest_function(OPEN.digest_type, b"", OPEN.ledger_id)
        context = LedgerContext(requests, self, digest, ClientConfig())
        self.look = ConfirmedLook(context, self, self.check_usable)

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
        assert isinstance(request, ReadLac)
        self.asked.append(bookie_id)
        outcome = self.outcome or LacAnswer(request_id=0, lac=self.lac)
        if self.is_silent:
            self.late.append(lambda: box.deliver([Reply(bookie_id, key, outcome)]))
        else:
            box.deliver([Reply(bookie_id, key, outcome)])

    def read_later(
        self,
        callback: Callable[[tuple[LedgerMetadata, int] | ZbkError], None],
        *,
        is_fresh: bool = False,
    ) -> None:
        assert is_fresh, "a lagging server could hide the end"

        def done(outcome: LedgerMetadata | ZbkError) -> None:
            callback(outcome if isinstance(outcome, ZbkError) else (outcome, 0))

        self.store.append(done)
        if self.store_answer is not None:
            done(self.store_answer)

    def check_usable(self) -> None:
        if self.usability is not None:
            raise self.usability

    def run(
        self, metadata: LedgerMetadata = OPEN, *, timeout_s: float = 30.0
    ) -> tuple[LedgerMetadata, int]:
        return self.look.run(metadata, -1, timeout_s)


def test_bookies_and_store_answer() -> None:
    world = World()

    assert world.run() == (OPEN, 3)
    world.store_answer = MOVED
    assert world.run() == (MOVED, 3)
    assert world.asked == ["b1", "b2", "b3"] * 2 + ["new", "b2", "b3"]


def test_a_silent_store_is_asked_once_until_it_answers() -> None:
    world = World()
    world.store_answer = None

    assert [world.run()[1] for _ in range(3)] == [3, 3, 3]
    assert len(world.store) == 1
    world.store[0](SILENT)
    assert world.run() == (OPEN, 3)
    assert len(world.store) == 2


def test_metadata_that_came_after_a_look_count_for_the_next_one() -> None:
    world = World()
    world.store_answer = None
    world.run()
    world.store[0](MOVED)
    world.store_answer = MOVED
    world.asked.clear()

    assert world.run() == (MOVED, 3)
    assert world.asked == ["new", "b2", "b3"]
    assert len(world.store) == 2, "what came late may be old: it is read again"


def test_an_end_that_came_after_a_look_is_the_answer_of_the_next_one() -> None:
    world = World()
    world.store_answer = None
    world.run()
    world.store[0](CLOSED)

    assert world.run() == (CLOSED, 9)


def test_replies_to_an_earlier_look_do_not_count() -> None:
    world = World()
    world.is_silent = True
    with pytest.raises(RequestTimeoutError, match="LAC of ledger 7"):
        world.run(timeout_s=0.02)
    world.lac = 8
    for answer in world.late[:2]:
        answer()

    with pytest.raises(RequestTimeoutError):
        world.run(timeout_s=0.02)
    for answer in world.late[2:]:
        answer()
    world.is_silent = False
    assert world.run() == (OPEN, 8)


@pytest.mark.parametrize("outcome", [BookieUnavailableError("b1", "is gone"), Pong(request_id=0)])
def test_too_few_bookies_are_an_error(outcome: ZbkError | Pong) -> None:
    world = World()
    world.outcome = outcome

    with pytest.raises(NotEnoughBookiesError, match="last add confirmed"):
        world.run()


def test_a_deleted_ledger_and_a_closed_client_are_errors() -> None:
    world = World()
    world.store_answer = NoSuchLedgerError(7)
    with pytest.raises(NoSuchLedgerError):
        world.run()
    world.usability = ClientClosedError()
    with pytest.raises(ClientClosedError):
        world.run()
