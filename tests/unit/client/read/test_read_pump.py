"""ReadPump: chunks that were moved to other bookies, and bookies that say nothing."""

from collections.abc import Callable

import msgspec
import pytest

from tests.support.ledgers import metadata_maker
from zbk.client.cluster.ledger_calls import LedgerContext, LedgerRequests
from zbk.client.cluster.requests import Requests
from zbk.client.read.ledger_reader import BatchedEntries
from zbk.client.read.read_ahead import MOVE_COUNT_MAX
from zbk.client.read.read_pump import ReadPump
from zbk.config import ClientConfig
from zbk.errors import (
    BookieUnavailableError,
    MetadataUnavailableError,
    NoSuchEntryError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.deadline import within
from zbk.transport.events import Reply, Sink
from zbk.wire.messages import Message, Read, ReadAnswer

LEDGER_ID = 7
DIGEST = digest_function(DigestType.XXH3, b"", LEDGER_ID)
OPEN = metadata_maker()(LEDGER_ID)


def encoded(entry_id: int) -> bytes:
    return encode_entries(
        LEDGER_ID, [entry_id], -1, 0, [b"%d" % entry_id], DigestType.XXH3, DIGEST
    )[0]


class FakeRequests(Requests):
    """Bookies that hold entries, are gone, or are silent."""

    def __init__(self, held: dict[str, range]) -> None:
        self.held = held
        self.silent: set[str] = set()
        self.asked: list[tuple[str, int, int]] = []
        self.late: list[Callable[[], None]] = []

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
        assert isinstance(request, Read)
        first, last = request.first_entry_id, request.last_entry_id
        self.asked.append((bookie_id, first, last))
        if bookie_id in self.silent:
            self.late.append(lambda: box.deliver([self._reply(bookie_id, first, last, key)]))
        else:
            box.deliver([self._reply(bookie_id, first, last, key)])

    def answer_late(self) -> None:
        """Answer what the silent ones were asked."""
        for answer in self.late:
            answer()

    def _reply(self, bookie_id: str, first: int, last: int, key: object) -> Reply:
        held = self.held.get(bookie_id)
        if held is None:
            return Reply(bookie_id, key, BookieUnavailableError(bookie_id, "is gone"))
        found = [entry_id for entry_id in range(first, last + 1) if entry_id in held]
        if not found or found[0] != first:
            return Reply(bookie_id, key, NoSuchEntryError(LEDGER_ID, first))
        answer = ReadAnswer(request_id=0, count=len(found))
        return Reply(bookie_id, key, answer, (b"".join(map(encoded, found)),))


def read(
    requests: FakeRequests,
    metadata: LedgerMetadata,
    refresh: Callable[[], LedgerMetadata],
    last: int,
    *,
    bookie_id: str | None = None,
    speculative_ms: int = 0,
    timeout_s: float = 5.0,
    read_size_max: int = 1 << 20,
) -> list[bytes]:
    config = ClientConfig(speculative_read_ms=speculative_ms, read_size_max=read_size_max)
    context = LedgerContext(LedgerRequests.of(metadata, b"k" * 16), requests, DIGEST, config)
    pump = ReadPump(
        context,
        metadata,
        refresh,
        learn_nothing,
        (0, last),
        bookie_id=bookie_id,
        timeout_s=timeout_s,
    )
    return [payload for batch in pump for payload in batch]


def learn_nothing(_lac: int) -> None:
    return


def never() -> LedgerMetadata:
    raise AssertionError("the metadata are not asked for")


def payloads(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def moved(metadata: LedgerMetadata, first_entry_id: int = 0) -> LedgerMetadata:
    """Return the metadata after every bookie of a fragment was replaced."""
    for old in metadata.fragment_of(first_entry_id)[0].bookies:
        metadata = metadata.with_replaced_bookie(first_entry_id, old, f"new-{old}")
    return metadata


def test_a_healthy_read_does_not_look_at_the_metadata() -> None:
    requests = FakeRequests({b: range(1_000) for b in ("b1", "b2", "b3")})

    assert read(requests, OPEN, never, 999) == payloads(1_000)


def test_b25_a_chunk_that_was_moved_is_read_where_it_is_now() -> None:
    """B25: all bookies that the handle knows are gone; the metadata name others."""
    closed = OPEN.with_closed(999, 0)
    requests = FakeRequests({f"new-b{n}": range(1_000) for n in (1, 2, 3)})
    reads: list[LedgerMetadata] = []

    def refresh() -> LedgerMetadata:
        reads.append(moved(closed))
        return reads[-1]

    assert read(requests, closed, refresh, 999) == payloads(1_000)
    assert len(reads) == 1, "what was learnt serves all chunks"


def test_b25_what_was_read_before_the_move_is_not_read_again() -> None:
    """B25: the first entries come from the old bookies, the rest from the new ones."""
    requests = FakeRequests({"b1": range(10), "b2": range(10), "b3": range(10)})
    for n in (1, 2, 3):
        requests.held[f"new-b{n}"] = range(10, 30)

    assert read(requests, OPEN, lambda: moved(OPEN), 29) == payloads(30)


def test_b25_a_chunk_may_lie_in_several_fragments_afterwards() -> None:
    """B25: a stale handle knows one fragment; now there are two, on other bookies."""
    fresh = moved(moved(OPEN.with_new_fragment(20, ("b4", "b5", "b6")), 0), 20)
    requests = FakeRequests({f"new-b{n}": range(20) for n in (1, 2, 3)})
    for n in (4, 5, 6):
        requests.held[f"new-b{n}"] = range(20, 40)

    assert read(requests, OPEN, lambda: fresh, 39) == payloads(40)


def test_a_read_whose_fragment_did_not_move_fails_with_its_own_error() -> None:
    with pytest.raises(BookieUnavailableError):
        read(FakeRequests({}), OPEN, lambda: OPEN, 9)


def test_metadata_that_cannot_be_read_do_not_hide_the_error() -> None:
    def refresh() -> LedgerMetadata:
        raise MetadataUnavailableError("zk://", "no answer")

    with pytest.raises(BookieUnavailableError):
        read(FakeRequests({}), OPEN, refresh, 9)


def test_nobody_says_that_an_entry_is_nowhere_without_knowing_where_it_should_be() -> None:
    def refresh() -> LedgerMetadata:
        raise MetadataUnavailableError("zk://", "no answer")

    with pytest.raises(MetadataUnavailableError):
        read(FakeRequests({f"b{n}": range(5) for n in (1, 2, 3)}), OPEN, refresh, 9)


def test_a_chunk_is_not_followed_for_ever() -> None:
    metadata = OPEN
    count = 0

    def refresh() -> LedgerMetadata:
        nonlocal metadata, count
        count += 1
        metadata = moved(metadata)
        return metadata

    with pytest.raises(ZbkError):
        read(FakeRequests({}), OPEN, refresh, 9)
    assert count == MOVE_COUNT_MAX


def test_the_copies_of_one_bookie_are_read_nowhere_else() -> None:
    requests = FakeRequests({"b2": range(10)})

    with pytest.raises(NoSuchEntryError):
        read(requests, OPEN, never, 19, bookie_id="b2")
    assert {bookie_id for bookie_id, _, _ in requests.asked} == {"b2"}


def test_a_bookie_that_holds_no_fragment_gives_nothing() -> None:
    assert read(FakeRequests({}), OPEN, never, 19, bookie_id="b9") == []


def test_a_silent_bookie_is_raced_and_then_avoided() -> None:
    requests = FakeRequests({b: range(30_000) for b in ("b1", "b2", "b3")})
    requests.silent = {"b1"}

    found = read(requests, OPEN, never, 29_999, speculative_ms=20, read_size_max=1 << 16)

    assert found == payloads(30_000)
    chunk_count = len({first for _, first, _ in requests.asked})
    assert chunk_count > 12, "it would be the first one asked for four of them"
    asked_count = sum(bookie_id == "b1" for bookie_id, _, _ in requests.asked)
    assert asked_count <= 2, "a bookie that was slow is asked last for a while"


def test_silence_ends_with_the_time_out() -> None:
    requests = FakeRequests({b: range(10) for b in ("b1", "b2", "b3")})
    requests.silent = {"b1", "b2", "b3"}

    with pytest.raises(RequestTimeoutError):
        read(requests, OPEN, never, 9, speculative_ms=10, timeout_s=1.0)
    assert {bookie_id for bookie_id, _, _ in requests.asked} == {"b1", "b2", "b3"}


class Confirming(FakeRequests):
    """Bookies that know a LAC, and entries in which writers have put one."""

    def __init__(self, told_lac: int, written_lac: int, digest_type: DigestType) -> None:
        super().__init__({})
        self.told_lac = told_lac
        self.written_lac = written_lac
        self.digest_type = digest_type

    def _reply(self, bookie_id: str, first: int, last: int, key: object) -> Reply:
        digest = digest_function(self.digest_type, b"", LEDGER_ID)
        ids = range(first, last + 1)
        payloads = [b"x"] * len(ids)
        body, _sizes = encode_entries(
            LEDGER_ID, ids, self.written_lac, 0, payloads, self.digest_type, digest
        )
        answer = ReadAnswer(request_id=0, count=len(ids), lac=self.told_lac)
        return Reply(bookie_id, key, answer, (body,))


@pytest.mark.parametrize(
    ("told_lac", "written_lac", "digest_type", "lac"),
    [
        (7, 3, DigestType.XXH3, 7),
        (-1, 3, DigestType.XXH3, 3),
        (2, 3, DigestType.NONE, 2),  # what is in the entry may be anything
    ],
)
def test_the_lac_rises_with_what_is_read(
    told_lac: int, written_lac: int, digest_type: DigestType, lac: int
) -> None:
    metadata = msgspec.structs.replace(OPEN, digest_type=digest_type)
    context = LedgerContext(
        LedgerRequests.of(metadata, b"k" * 16),
        Confirming(told_lac, written_lac, digest_type),
        digest_function(digest_type, b"", LEDGER_ID),
        ClientConfig(),
    )
    lacs: list[int] = []
    pump = ReadPump(context, metadata, never, lacs.append, (0, 5), bookie_id=None, timeout_s=5.0)

    assert [len(batch) for batch in pump] == [6]

    assert lacs == [lac]


def test_after_a_time_out_a_read_goes_on_with_what_came_meanwhile() -> None:
    requests = FakeRequests({b: range(1) for b in ("b1", "b2", "b3")})
    requests.silent = set(requests.held)
    config = ClientConfig(speculative_read_ms=0)
    context = LedgerContext(LedgerRequests.of(OPEN, b"k" * 16), requests, DIGEST, config)
    pump = ReadPump(context, OPEN, never, learn_nothing, (0, 0), bookie_id=None, timeout_s=60.0)

    for _ in range(2):
        with within(0.02), pytest.raises(RequestTimeoutError, match="read of ledger 7"):
            next(pump)
    assert len(requests.asked) == 1, "what is on its way is not asked for again"
    requests.answer_late()
    assert [list(batch) for batch in pump] == [[b"0"]]


def test_after_a_time_out_the_entries_of_a_read_go_on() -> None:
    """The end of the iteration would look like the end of the entries."""
    requests = FakeRequests({b: range(2) for b in ("b1", "b2", "b3")})
    requests.silent = set(requests.held)
    config = ClientConfig(speculative_read_ms=0)
    context = LedgerContext(LedgerRequests.of(OPEN, b"k" * 16), requests, DIGEST, config)
    entries = BatchedEntries(
        ReadPump(context, OPEN, never, learn_nothing, (0, 1), bookie_id=None, timeout_s=60.0)
    )

    for _ in range(2):
        with within(0.02), pytest.raises(RequestTimeoutError, match="read of ledger 7"):
            next(entries)
    requests.answer_late()
    assert [entry.payload for entry in entries] == [b"0", b"1"]
    assert list(entries) == []


class SizedRequests(FakeRequests):
    """Bookies whose entries have sizes, and whose replies have a limit."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__({})
        self.sizes = sizes
        self.sent_size = 0

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
        assert isinstance(request, Read)
        body, count = b"", 0
        for entry_id in range(request.first_entry_id, request.last_entry_id + 1):
            payload = bytes(self.sizes[entry_id])
            entry = encode_entries(LEDGER_ID, [entry_id], -1, 0, [payload], DigestType.XXH3, DIGEST)
            if body and len(body) + len(entry[0]) > request.size_max:
                break
            body, count = body + entry[0], count + 1
        self.sent_size += len(body)
        answer = ReadAnswer(request_id=0, count=count)
        box.deliver([Reply(bookie_id, key, answer, (body,))])


def test_a_reader_keeps_little_of_entries_that_are_larger_than_those_before() -> None:
    sizes = [1] * 2_000 + [16 * 1024] * 2_000
    requests = SizedRequests(sizes)
    read_size_max = 64 * 1024
    config = ClientConfig(speculative_read_ms=0, read_size_max=read_size_max)
    context = LedgerContext(LedgerRequests.of(OPEN, b"k" * 16), requests, DIGEST, config)
    closed = OPEN.with_closed(len(sizes) - 1, 0)
    pump = ReadPump(
        context, closed, never, learn_nothing, (0, len(sizes) - 1), bookie_id=None, timeout_s=5.0
    )
    found: list[int] = []
    kept_size_max = taken_size = 0
    for batch in pump:
        found += [len(payload) for payload in batch]
        taken_size += batch.size
        kept_size_max = max(kept_size_max, requests.sent_size - taken_size)

    assert found == sizes
    # those that wait to be returned, and for each chunk one that is set aside
    assert kept_size_max <= 2 * config.read_ahead_count * read_size_max + read_size_max
