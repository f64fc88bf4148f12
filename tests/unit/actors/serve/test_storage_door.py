"""Which requests the front's thread serves itself, in the turn of an idle storage actor."""

from itertools import count

import pykka
import pytest

from zbk.actors.serve import storage_door
from zbk.actors.serve.fair_queue import TURN_SIZE
from zbk.actors.serve.journal_times import UNTIMED
from zbk.actors.serve.storage_door import LENT_SIZE_MAX, Requests, RequestsWait, StorageDoor
from zbk.metrics.sampling import FREQUENT_COUNT, SHARES
from zbk.system.direct_inbox import DirectInbox
from zbk.transport.admission import ANSWER_SIZE_MIN
from zbk.transport.inbound import Inbound
from zbk.wire.messages import GetLedgerInfo, Ping


class FakeStorage(DirectInbox):
    """Notes what it handled in the calling thread, and what was left for it."""

    def __init__(self, *, is_idle: bool = True) -> None:
        self.is_idle = is_idle
        self.is_stopped = False
        self.here: list[object] = []
        self.told: list[object] = []
        self.actor_ref = self

    def handle_here(self, message: object) -> bool:
        if self.is_idle:
            self.here.append(message)
        return self.is_idle

    def tell(self, message: object) -> None:
        if self.is_stopped:
            raise pykka.ActorDeadError
        self.told.append(message)


def requests(*sizes: int) -> list[Inbound]:
    return [Inbound(b"peer", Ping(request_id=1), (), size) for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "is_idle", "is_served_here"),
    [
        ((LENT_SIZE_MAX,), True, True),
        ((LENT_SIZE_MAX - 1, 1), True, True),
        ((LENT_SIZE_MAX, 1), True, False),
        ((1,), False, False),
    ],
)
def test_few_bytes_are_served_here_if_the_actor_is_idle(
    sizes: tuple[int, ...], *, is_idle: bool, is_served_here: bool
) -> None:
    door, storage = StorageDoor(), FakeStorage(is_idle=is_idle)
    door.actor = storage

    door.receive(batch := requests(*sizes))

    if is_served_here:
        (got,) = storage.here
        assert isinstance(got, Requests)
        assert got.batch == batch
        assert door.queue.is_empty
        assert storage.told == []
    else:
        assert storage.told == [RequestsWait()]
        assert door.queue.take(0, 0).batch == batch


def test_a_question_that_takes_long_is_left_to_the_actor() -> None:
    door, storage = StorageDoor(), FakeStorage()
    door.actor = storage
    asked = [
        Inbound(b"peer", GetLedgerInfo(request_id=number, ledger_id=7), (), 95, ANSWER_SIZE_MIN)
        for number in range(400)
    ]

    door.receive(asked)

    assert storage.here == []
    assert 0 < len(door.queue.take(0, 0).batch) <= TURN_SIZE // ANSWER_SIZE_MIN
    door.receive([Inbound(b"other", Ping(request_id=1), (), 10)])
    assert {one.peer for one in door.queue.take(0, 0).batch} == {b"peer", b"other"}


def test_requests_do_not_overtake_those_that_wait() -> None:
    door, storage = StorageDoor(), FakeStorage(is_idle=False)
    door.actor = storage
    door.receive(first := requests(LENT_SIZE_MAX))
    storage.is_idle = True

    door.receive(second := requests(1))

    assert storage.here == []
    assert storage.told == [RequestsWait()]  # once: the actor takes all that wait
    assert door.queue.take(0, 0).batch == [*first, *second]


def test_what_comes_after_the_actor_has_stopped_is_dropped() -> None:
    door, storage = StorageDoor(), FakeStorage(is_idle=False)
    door.actor = storage
    storage.is_stopped = True

    door.receive(requests(1))

    assert storage.told == []


@pytest.fixture
def _frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each reading of the clock a millisecond later."""
    monkeypatch.setattr(storage_door, "monotonic_ns", count(10**9, 10**6).__next__)


@pytest.mark.usefixtures("_frequent")
def test_of_frequent_batches_some_are_timed_and_stand_for_all() -> None:
    door, storage = StorageDoor(), FakeStorage()
    door.actor = storage
    every_count = FREQUENT_COUNT + 1 + 3 * sum(SHARES)
    for _ in range(every_count):
        door.receive(requests(1))

    timed = [one for one in storage.here if isinstance(one, Requests) and one.received_us > 0]
    assert len(storage.here) == every_count
    assert len(timed) == FREQUENT_COUNT + 1 + 3 * len(SHARES)
    assert sum(one.lone_count for one in timed) == every_count


@pytest.mark.usefixtures("_frequent")
def test_a_batch_that_waits_is_timed_and_takes_the_turn_of_no_other() -> None:
    """Its time decides what is fair. Those that were served at once are stood for all the same."""
    door, storage = StorageDoor(), FakeStorage()
    door.actor = storage
    for _ in range(FREQUENT_COUNT + 2):  # the last one is not timed
        door.receive(requests(1))
    last = storage.here[-1]
    assert isinstance(last, Requests)
    assert last.received_us == UNTIMED

    storage.is_idle = False
    for _ in range(20):
        door.receive(requests(1))
        assert door.queue.take(0, 0).received_us > 0
    storage.is_idle = True
    before_count = len(storage.here)
    for _ in range(SHARES[0] - 1):
        door.receive(requests(1))

    times = [one.received_us for one in storage.here[before_count:] if isinstance(one, Requests)]
    assert [one == UNTIMED for one in times] == [True] * (SHARES[0] - 2) + [False]
