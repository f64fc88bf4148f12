"""The actors that wait for the metadata store: each ledger in order, many at the same time."""

import threading
from collections.abc import Iterator
from functools import partial

import pykka
import pytest

from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.client.cluster.metadata_actor import ACTOR_COUNT, MetadataActors, MetadataTask
from zbk.errors import ClientClosedError, MetadataUnavailableError


@pytest.fixture
def actors() -> Iterator[MetadataActors]:
    made = MetadataActors()
    yield made
    made.stop()


def test_tasks_of_different_ledgers_wait_at_the_same_time(actors: MetadataActors) -> None:
    together = threading.Barrier(ACTOR_COUNT, timeout=20)
    done: list[object] = []
    for ledger_id in range(100, 100 + ACTOR_COUNT):
        actors.tell(ledger_id, MetadataTask(together.wait, done.append))

    wait_until(lambda: len(done) == ACTOR_COUNT, what="all of them")
    assert set(done) == set(range(ACTOR_COUNT)), "each passed the barrier"


def test_tasks_of_one_ledger_are_done_in_order(actors: MetadataActors) -> None:
    done: list[object] = []
    for number in range(50):
        actors.tell(7, MetadataTask(partial(int, number), done.append))

    wait_until(lambda: len(done) == 50, what="all of them")
    assert done == list(range(50))


def test_what_a_task_raises_is_its_answer(actors: MetadataActors) -> None:
    done: list[object] = []
    actors.tell(0, MetadataTask(lambda: 1 // 0, done.append))

    wait_until(lambda: bool(done), what="the answer")
    assert isinstance(done[0], MetadataUnavailableError)


def test_no_thread_is_made_before_it_is_needed(actors: MetadataActors) -> None:
    threads = NewThreads()
    for _ in range(3):
        actors.tell(0, MetadataTask(lambda: None, lambda _outcome: None))
    assert len(threads.names()) == 1


def test_after_the_end_nothing_is_taken() -> None:
    actors = MetadataActors()
    actors.stop()
    with pytest.raises(pykka.ActorDeadError):
        actors.tell(0, MetadataTask(lambda: None, lambda _outcome: None))


@pytest.mark.parametrize("is_silent", [True, False])
def test_the_end_waits_for_queued_tasks_only_while_the_store_answers(
    actors: MetadataActors, is_silent: bool
) -> None:
    begun, answered = threading.Event(), threading.Event()
    done: list[object] = []

    def ask_the_store() -> None:
        begun.set()
        assert answered.wait(20)
        if is_silent:
            raise MetadataUnavailableError("zk://here", "no answer within 5 s")

    actors.tell(0, MetadataTask(ask_the_store, done.append))
    for number in range(100):
        actors.tell(0, MetadataTask(partial(int, number), done.append))
    assert begun.wait(20)
    stop = threading.Thread(target=actors.stop, daemon=True)
    stop.start()
    wait_until(lambda: is_ended(actors), what="the end")
    answered.set()
    stop.join(20)

    if is_silent:
        assert isinstance(done[0], MetadataUnavailableError)
        assert [type(outcome) for outcome in done[1:]] == [ClientClosedError] * 100
    else:
        assert done == [None, *range(100)]


def is_ended(actors: MetadataActors) -> bool:
    try:
        actors.tell(1, MetadataTask(lambda: None, lambda _outcome: None))
    except pykka.ActorDeadError:
        return True
    return False
