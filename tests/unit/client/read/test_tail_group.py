"""TailGroup: many ledgers, one thread. A real client; one bookie that answers on cue."""

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

import zbk
from tests.support.memory_store import named_tree
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, Echo, front
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.values import BookieRegistration
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.words import DigestType
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import LacAnswer, LacsRisen, LacWatch, Read, ReadAnswer, ReadLac, WatchLacs

TREES = itertools.count()
LEDGER_COUNT = 300


class Bookie(Echo):
    """A bookie of many ledgers whose LACs a test raises."""

    def __init__(self) -> None:
        super().__init__()
        self.lacs: dict[int, int] = {}
        self.watches: dict[int, LacWatch] = {}
        self.waiting: Inbound | None = None
        self.lock = threading.Lock()
        self.request_counts = {Read: 0, ReadLac: 0, WatchLacs: 0}

    def deliver(self, batch: list[Inbound]) -> None:
        with self.lock:
            for inbound in batch:
                request = inbound.request
                self.request_counts[type(request)] += 1
                match request:
                    case ReadLac():
                        self._say(inbound, LacAnswer(request_id=request.request_id, lac=-1))
                    case Read():
                        self._read(inbound, request)
                    case WatchLacs():
                        self._tell([])
                        self.waiting = inbound
                        for number in request.ended:
                            self.watches.pop(number, None)
                        self.watches.update({one.number: one for one in request.begun})
                        self._look()

    def rise(self, ledger_ids: list[int], lac: int) -> None:
        with self.lock:
            self.lacs.update(dict.fromkeys(ledger_ids, lac))
            self._look()

    def _look(self) -> None:
        risen = [
            (number, self.lacs[one.ledger_id])
            for number, one in self.watches.items()
            if self.lacs.get(one.ledger_id, -1) > one.known_lac
        ]
        if risen and self.waiting is not None:
            for number, _ in risen:
                del self.watches[number]
            self._tell(risen)

    def _tell(self, risen: list[tuple[int, int]]) -> None:
        if self.waiting is not None:
            inbound, self.waiting = self.waiting, None
            self._say(inbound, LacsRisen(request_id=inbound.request.request_id, risen=risen))

    def _read(self, inbound: Inbound, request: Read) -> None:
        ids = range(request.first_entry_id, request.last_entry_id + 1)
        ledger_id = request.ledger_id
        digest = digest_function(DigestType.XXH3, b"", ledger_id)
        payloads = [b"%d:%d" % (ledger_id, entry_id) for entry_id in ids]
        body = encode_entries(ledger_id, ids, -1, 0, payloads, DigestType.XXH3, digest)[0]
        answer = ReadAnswer(request_id=request.request_id, count=len(ids))
        self._say(inbound, answer, (body,))

    def _say(
        self,
        inbound: Inbound,
        answer: LacAnswer | LacsRisen | ReadAnswer,
        frames: tuple[bytes, ...] = (),
    ) -> None:
        assert self.front is not None
        self.front.send([Outbound(inbound, answer, frames)])


class World:
    """A cluster of one bookie, a client, and readers of many ledgers."""

    def __init__(self, ledger_count: int) -> None:
        name = f"tail-group-{next(TREES)}"
        self.store = named_tree(name).open_session()
        self.bookie = Bookie()
        self.front = front(self.bookie, instance_id=initialise(self.store))
        registration = BookieRegistration(
            bookie_id=BOOKIE_ID, address=self.front.endpoint, incarnation=1, is_readonly=False,
            started_ms=0, version="1",
        )  # fmt: skip
        self.registration = BookieRegistry(self.store).register(registration)
        self.client = zbk.connect(f"memory://{name}", explicit_lac_ms=0)
        writers = self.client.create_ledgers(
            ledger_count, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1
        )
        self.ledger_ids = [writer.ledger_id for writer in writers]
        self.readers = [self.client.open_ledger(ledger_id) for ledger_id in self.ledger_ids]

    def close(self) -> None:
        self.client.close()
        self.registration.close()
        self.front.stop()
        self.store.close()


@pytest.fixture
def world_of() -> Iterator[Callable[[int], World]]:
    made: list[World] = []

    def make(ledger_count: int) -> World:
        made.append(World(ledger_count))
        return made[-1]

    yield make
    for world in made:
        world.close()


def take(group: zbk.TailGroup, count: int) -> dict[int, list[int]]:
    """Return the ids of so many entries that come next, by ledger."""
    found: dict[int, list[int]] = {}
    left = count
    while left > 0:
        item = group.next_item(timeout=30)
        assert item is not None
        assert item.batch is not None, item.error
        for entry in item.batch.entries():
            assert bytes(entry.payload) == b"%d:%d" % (entry.ledger_id, entry.entry_id)
            found.setdefault(entry.ledger_id, []).append(entry.entry_id)
            left -= 1
    return found


def test_many_ledgers_are_followed_by_one_thread_and_share_requests(
    world_of: Callable[[int], World],
) -> None:
    world = world_of(LEDGER_COUNT)
    threads = NewThreads()
    group = world.client.tail_group()
    for reader in world.readers:
        group.add(reader)

    with pytest.raises(zbk.RequestTimeoutError, match=f"tail of {LEDGER_COUNT} ledgers"):
        group.next_item(timeout=0.05)

    counts = world.bookie.request_counts
    wait_until(lambda: len(world.bookie.watches) == LEDGER_COUNT)
    assert counts[WatchLacs] <= 10, "they left together"
    assert counts[ReadLac] == LEDGER_COUNT, "of opening the readers, before"
    assert len(threads.names()) <= 1, "one that shares the metadata's news"

    world.bookie.rise(world.ledger_ids, 1)

    assert take(group, 2 * LEDGER_COUNT) == {one: [0, 1] for one in world.ledger_ids}
    assert counts[Read] == LEDGER_COUNT
    world.bookie.rise(world.ledger_ids[:3], 4)
    assert take(group, 9) == {one: [2, 3, 4] for one in world.ledger_ids[:3]}
    assert counts[WatchLacs] < LEDGER_COUNT


def test_a_busy_ledger_does_not_keep_the_others_waiting(world_of: Callable[[int], World]) -> None:
    world = world_of(2)
    busy, quiet = world.ledger_ids
    group = world.client.tail_group()
    for reader in world.readers:
        group.add(reader)
    world.bookie.rise([busy], 100_000)
    take(group, 1)

    world.bookie.rise([quiet], 0)

    for _ in range(200):  # it has hundreds of batches left
        item = group.next_item(timeout=30)
        assert item is not None
        if item.reader.ledger_id == quiet:
            return
    pytest.fail("the quiet ledger's entry did not come")


def test_a_ledger_that_ends_is_reported_once_and_the_others_go_on(
    world_of: Callable[[int], World],
) -> None:
    world = world_of(3)
    gone, first, other = world.ledger_ids
    group = world.client.tail_group()
    for reader in world.readers:
        group.add(reader)
    world.bookie.rise([first], 0)
    assert take(group, 1) == {first: [0]}

    world.client.delete_ledger(gone)
    item = group.next_item(timeout=30)

    assert item is not None
    assert (item.reader.ledger_id, item.is_last) == (gone, True)
    assert isinstance(item.error, zbk.NoSuchLedgerError)
    assert len(group) == 2
    world.bookie.rise([other], 0)
    assert take(group, 1) == {other: [0]}


def test_a_reader_that_is_closed_leaves_without_a_word(world_of: Callable[[int], World]) -> None:
    world = world_of(2)
    group = world.client.tail_group()
    for reader in world.readers:
        group.add(reader)
    with pytest.raises(zbk.RequestTimeoutError):
        group.next_item(timeout=0.01)

    for reader in world.readers:
        reader.close()

    assert list(group) == []
    with pytest.raises(zbk.ReaderClosedError):
        group.add(world.readers[0])


def test_a_closed_group_ends_and_lets_its_watches_go(world_of: Callable[[int], World]) -> None:
    world = world_of(2)
    with world.client.tail_group() as group:
        for reader in world.readers:
            group.add(reader)
        with pytest.raises(zbk.RequestTimeoutError):
            group.next_item(timeout=0.01)

    assert list(group) == []
    assert not world.readers[0].is_closed
    again = world.client.tail_group()  # its request carries what the closed group dropped
    again.add(world.readers[0])
    world.bookie.rise(world.ledger_ids, 0)
    assert take(again, 1) == {world.ledger_ids[0]: [0]}
    wait_until(lambda: not world.bookie.watches)


def test_a_closed_client_ends_the_wait(world_of: Callable[[int], World]) -> None:
    world = world_of(1)
    group = world.client.tail_group()
    group.add(world.readers[0])
    thread = threading.Thread(target=world.client.close)
    thread.start()

    with pytest.raises(zbk.ClientClosedError):
        group.next_item(timeout=30)
    thread.join()
