"""LedgerTail: carries out its core; bookies that answer on cue, metadata that change on cue."""

import threading
from collections.abc import Callable

import pytest

from tests.support.ledgers import metadata_maker
from tests.support.waiting import wait_until
from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.read import tail_body
from zbk.client.read.lac_watches import LacWatches
from zbk.client.read.metadata_source import MetadataSource
from zbk.client.read.read_ahead import ReadAhead
from zbk.client.read.tail import LedgerTail
from zbk.client.read.tail_body import TailBody, TailBox, TailSetup
from zbk.errors import (
    BookieUnavailableError,
    ClientClosedError,
    DigestMismatchError,
    MetadataUnavailableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.metadata.stores.store import Watch
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.read_batch import ReadBatch, decode_entries
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.tail import TailCore, TailLimits
from zbk.transport.events import Reply, Sink
from zbk.wire.messages import LacAnswer

LEDGER_ID = 7
DIGEST = digest_function(DigestType.XXH3, b"", LEDGER_ID)
Seen = tuple[LedgerMetadata, int] | None


class Ahead(ReadAhead):
    """Entries that are read at once, or an error."""

    lac = -1
    due_ms = None
    wants_metadata = False
    is_over = False

    def __init__(self, first: int, last: int, error: ZbkError | None) -> None:
        self._ids = range(first, last + 1)
        self._error = error

    def next_batch(self) -> ReadBatch | None:
        if self._error is not None:
            raise self._error
        if self.is_over:
            return None
        self.is_over = True
        payloads = [b"%d" % n for n in self._ids]
        body = encode_entries(LEDGER_ID, self._ids, -1, 0, payloads, DigestType.XXH3, DIGEST)[0]
        return decode_entries(body, self._ids, LEDGER_ID, DigestType.XXH3, DIGEST)[0]

    def take(self, reply: Reply) -> None:
        raise AssertionError(f"nothing was asked for: {reply}")

    def tick(self) -> None:
        return

    def refreshed(self, metadata: LedgerMetadata) -> None:
        raise AssertionError(f"nothing was asked for: {metadata}")

    def not_refreshed(self, unknown: MetadataUnavailableError) -> None:
        raise AssertionError(f"nothing was asked for: {unknown}")


class World(LacWatches, MetadataSource):
    """A ledger, its bookies and its metadata, as one tail sees them."""

    def __init__(self) -> None:
        self.metadata = metadata_maker()(LEDGER_ID)
        self.last_add_confirmed = -1
        self.polls: list[tuple[str, int, Sink, object]] = []  # bookie, known LAC
        self.watches: list[Callable[[Seen], None]] = []
        self.is_cancelled = False
        self.read_errors: list[ZbkError] = []
        self.usability: ZbkError | None = None
        self.learnt: list[int] = []
        self.dropped: list[int] = []
        self.are_fresh: list[bool] = []  # of each read of the metadata

    # -------------------------------------------------------------- as bookies

    def begin(
        self, bookie_id: str, ledger: LedgerRequests, known_lac: int, sink: Sink, key: object
    ) -> int:
        assert ledger.ledger_id == LEDGER_ID
        self.polls.append((bookie_id, known_lac, sink, key))
        return len(self.polls)

    def end(self, number: int) -> None:
        self.dropped.append(number)

    def tell(self, lac: int) -> None:
        """Answer the poll that one bookie was sent."""
        bookie_id, _known_lac, box, key = self.polls.pop(0)
        box.deliver([Reply(bookie_id, key, LacAnswer(request_id=0, lac=lac))])

    # -------------------------------------------------------------- as metadata

    def watch(self, callback: Callable[[Seen], None]) -> Watch:
        self.watches.append(callback)
        callback((self.metadata, 0))
        return self

    def cancel(self) -> None:
        self.is_cancelled = True

    def read_later(
        self,
        callback: Callable[[tuple[LedgerMetadata, int] | ZbkError], None],
        *,
        is_fresh: bool = False,
    ) -> None:
        self.are_fresh.append(is_fresh)
        callback((self.metadata, 1))

    def change(self, metadata: LedgerMetadata | None) -> None:
        if metadata is not None:
            self.metadata = metadata
        self.watches[0](None if metadata is None else (metadata, 2))

    # -------------------------------------------------------------- as the reader

    def learn(self, metadata: LedgerMetadata, lac: int) -> None:
        self.learnt.append(lac)

    def read_ahead(self, first: int, last: int, sink: Sink) -> Ahead:
        return Ahead(first, last, self.read_errors.pop(0) if self.read_errors else None)

    def check_usable(self) -> None:
        if self.usability is not None:
            raise self.usability

    def tail(self, *, lac: int = -1, first: int = 0, timeout_s: float | None = 10.0) -> LedgerTail:
        return LedgerTail(self.setup(lac, timeout_s), first)

    def setup(self, lac: int = -1, timeout_s: float | None = None) -> TailSetup:
        limits = TailLimits(wait_ms=5_000, outage_ms=60_000)
        return TailSetup(
            ledger=self,
            core=TailCore(self.metadata, 0, lac, limits),
            source=self,
            requests=LedgerRequests.of(self.metadata, b"k" * 16),
            watches=self,
            timeout_s=timeout_s,
            check_usable=self.check_usable,
        )


def take(tail: LedgerTail, count: int) -> list[int]:
    return [next(tail).entry_id for _ in range(count)]


def in_a_moment(action: Callable[[], None], is_so: Callable[[], bool]) -> threading.Thread:
    """Do something in another thread as soon as something is so."""

    def run() -> None:
        wait_until(is_so)
        action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_what_is_known_is_read_without_asking_anybody() -> None:
    world = World()

    assert take(world.tail(lac=4), 5) == [0, 1, 2, 3, 4]
    assert world.polls == []


def test_a_waiting_tail_reads_on_when_a_bookie_tells_more() -> None:
    world = World()
    tail = world.tail(lac=1)
    take(tail, 2)
    thread = in_a_moment(lambda: world.tell(3), lambda: len(world.polls) == 3)

    assert take(tail, 2) == [2, 3]
    thread.join(5)
    assert [known_lac for _, known_lac, _, _ in world.polls] == [1, 1]
    assert world.learnt[-1] == 3


def test_it_ends_when_the_ledger_is_closed_and_cancels_its_watch() -> None:
    world = World()
    tail = world.tail(lac=1)
    take(tail, 2)
    world.change(world.metadata.with_closed(3, 0))

    assert [entry.entry_id for entry in tail] == [2, 3]
    assert list(tail) == []
    assert world.is_cancelled


def test_a_time_out_leaves_it_as_good_as_before() -> None:
    world = World()
    tail = world.tail(timeout_s=0.02)

    for _ in range(2):
        with pytest.raises(RequestTimeoutError, match="tail of ledger 7"):
            next(tail)
    assert len(world.polls) == 3, "what was asked is not asked again"
    world.tell(0)
    assert next(tail).payload == b"0"


def test_what_cannot_be_read_now_is_read_again() -> None:
    world = World()
    world.read_errors = [BookieUnavailableError("b1", "is gone")] * 2

    assert take(world.tail(lac=2), 3) == [0, 1, 2]


def test_an_entry_that_moved_is_found_in_fresh_metadata() -> None:
    """A metadata server that lags would name the replaced bookies again."""
    world = World()
    world.read_errors = [NoSuchEntryError(LEDGER_ID, 0)]

    assert take(world.tail(lac=2), 3) == [0, 1, 2]
    assert world.are_fresh == [True]


@pytest.mark.parametrize("error", [DigestMismatchError(LEDGER_ID, 0), ClientClosedError()])
def test_what_can_never_be_read_is_an_error_each_time(error: ZbkError) -> None:
    world = World()
    world.read_errors = [error]
    tail = world.tail(lac=2)

    for _ in range(2):
        with pytest.raises(type(error)):
            next(tail)
    assert world.is_cancelled


def test_a_deleted_ledger_is_an_error() -> None:
    world = World()
    tail = world.tail(lac=0)
    take(tail, 1)
    world.change(None)

    with pytest.raises(NoSuchLedgerError):
        next(tail)


def test_closing_it_ends_a_wait_in_another_thread() -> None:
    world = World()
    tail = world.tail(timeout_s=None)
    thread = in_a_moment(tail.close, lambda: len(world.polls) == 3)

    assert list(tail) == []
    thread.join(5)


def test_a_closed_client_ends_a_wait() -> None:
    world = World()
    tail = world.tail(timeout_s=None)

    def close_client() -> None:
        world.usability = ClientClosedError()

    thread = in_a_moment(close_client, lambda: len(world.polls) == 3)
    with pytest.raises(ClientClosedError):
        next(tail)
    thread.join(5)


def test_batches_come_as_they_were_confirmed() -> None:
    world = World()
    world.metadata = world.metadata.with_closed(9, 0)
    tail = world.tail(first=3)

    assert [list(batch.entry_ids) for batch in tail.batches()] == [[3, 4, 5, 6, 7, 8, 9]]


class SilentStore(World):
    """A metadata store that answers reads on cue."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Callable[[tuple[LedgerMetadata, int] | ZbkError], None]] = []

    def read_later(
        self,
        callback: Callable[[tuple[LedgerMetadata, int] | ZbkError], None],
        *,
        is_fresh: bool = False,
    ) -> None:
        self.reads.append(callback)


def test_reads_of_a_silent_metadata_store_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 1_000
    monkeypatch.setattr(tail_body, "monotonic_ms", lambda: now_ms)
    world, box = SilentStore(), TailBox()
    body = TailBody(world.setup(), 0, box)
    body.start()
    for _ in range(100):  # one bookie is gone: it is polled in vain each second
        now_ms += 1_000
        for bookie_id, _known_lac, sink, key in world.polls:
            if bookie_id == "b1":
                sink.deliver([Reply(bookie_id, key, BookieUnavailableError(bookie_id, "is gone"))])
        world.polls.clear()
        for _body, item in box.take_all():
            body.take(item)
        body.tick()

    assert len(world.reads) == 1
    world.reads.pop()(MetadataUnavailableError("zk://here", "no answer"))
    assert len(world.reads) == 1, "it was wanted again meanwhile"
    world.reads.pop()((world.metadata.with_closed(-1, 0), 1))
    assert world.reads == []
    for _body, item in box.take_all():
        body.take(item)
    assert body.is_over


def test_a_tail_closed_while_it_starts_keeps_no_watch() -> None:
    world = World()
    tail = world.tail()
    watch = world.watch

    def slow_watch(callback: Callable[[Seen], None]) -> Watch:
        tail.close()  # in another thread, while the store is slow
        return watch(callback)

    world.watch = slow_watch  # type: ignore[method-assign]

    assert list(tail) == []
    assert world.is_cancelled
