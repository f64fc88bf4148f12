"""Which requests the front's thread serves itself, in the turn of an idle storage actor."""

import pykka
import pytest

from zbk.actors.serve.storage_door import LENT_SIZE_MAX, Requests, RequestsWait, StorageDoor
from zbk.system.direct_inbox import DirectInbox
from zbk.transport.inbound import Inbound
from zbk.wire.messages import Ping


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
