"""Many writers of one client share an actor: what they share, and what they must not.

A whole bookie in this process.
"""

import gc
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.bookie_here import ONE, BookieHere
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.client.api import Client
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.client.write.writer_actor import (
    Join,
    Leave,
    LookAround,
    TimePassed,
    WriterActor,
    WriterDoor,
)
from zbk.client.write.writer_body import WriterBody
from zbk.config import ClientConfig
from zbk.errors import (
    BookieUnavailableError,
    ClientClosedError,
    LedgerClosedError,
    LedgerFencedError,
    ZbkError,
)
from zbk.protocol.write.bookie_answers import BookieAnswers
from zbk.protocol.write.events import AddAnswered, Effect
from zbk.system.direct_inbox import TurnQueue
from zbk.transport.dealer import BookiePool


class Pool(BookiePool):
    """Keeps the times that it is to call at."""

    def __init__(self) -> None:
        self.times_ms: list[int | None] = []

    def call_at(self, at_ms: int | None, _call: Callable[[], None]) -> None:
        self.times_ms.append(at_ms)


class Body(WriterBody):
    """A writer that is due, done with and ended when a test says so."""

    def __init__(self, ledger_id: int, door: WriterDoor) -> None:
        self.ledger_id = ledger_id
        self.next_ms: int | None = None
        self.is_idle = False
        self.error: ZbkError | None = None
        self.is_ended = False
        self._door = door

    is_done_with = property(lambda self: self.is_idle)
    may_drain = False

    def due_ms(self, _now_ms: int) -> int | None:
        return self.next_ms

    def start(self) -> None:
        return

    def end(self, error: ZbkError) -> None:
        self.is_ended, self.error = True, error
        self._door.forget(self)


class Turns:
    """An actor whose messages are handled here, at once, at 0 ms."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.door = WriterDoor(self.pool)
        self.actor = WriterActor(self.door, self.pool, lambda: 0)

    def join(
        self, ledger_id: int, next_ms: int | None = None, body_type: type[Body] = Body
    ) -> Body:
        body = body_type(ledger_id, self.door)
        body.next_ms = next_ms
        self.actor.on_receive(Join(body))
        return body


class Unending(Body):
    """A writer whose end fails."""

    def end(self, error: ZbkError) -> None:
        self.is_ended, self.error = True, error
        raise RuntimeError("a bug")


def writers(client: Client, count: int) -> list[LedgerWriter]:
    return [client.create_ledger(**ONE) for _ in range(count)]


def test_an_open_ledger_needs_no_thread_and_no_timer(client: Client) -> None:
    for one in writers(client, ClientConfig().writer_actor_count):
        one.append(b"0")
    threads = NewThreads()

    others = writers(client, 200)

    assert threads.names() == []
    for one in others:
        one.append(b"x")
    wait_until(lambda: not client._pool._alarms, what="no timer is left")


def test_each_ledger_has_what_was_appended_to_it_from_many_threads(client: Client) -> None:
    ledgers = writers(client, 12)
    sent: list[list[bytes]] = [[] for _ in ledgers]
    locks = [threading.Lock() for _ in ledgers]
    futures: list[Future[int]] = []

    def append(seed: int) -> None:
        rng = random.Random(seed)
        for number in range(150):
            index = rng.randrange(len(ledgers))
            payload = b"%d %d " % (seed, number) * rng.choice([1, 1, 1, 40, 4_000])
            with locks[index]:  # the order of the calls is that of the entries
                sent[index].append(payload)
                futures.append(ledgers[index].append_async(payload))

    threads = [threading.Thread(target=append, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for future in futures:
        future.result(30)

    for ledger, payloads in zip(ledgers, sent, strict=True):
        assert ledger.close() == len(payloads) - 1
        reader = client.open_ledger(ledger.ledger_id)
        assert [entry.payload for entry in reader.read(0, len(payloads) - 1)] == payloads


def test_the_lac_of_each_idle_ledger_is_told(world: BookieHere, client: Client) -> None:
    with world.connect(explicit_lac_ms=20) as writing:
        ledgers = writers(writing, 40)
        for ledger in ledgers:
            for _ in range(3):
                ledger.append(b"x")
        for ledger in ledgers:
            reader = client.open_ledger(ledger.ledger_id)
            wait_until(lambda reader=reader: reader.read_last_add_confirmed() == 2)  # type: ignore[misc]


def test_a_bug_in_one_writer_ends_no_other(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = writers(client, 2)
    take_in = BookieAnswers.add_answered

    def fails(self: BookieAnswers, event: AddAnswered) -> Sequence[Effect]:
        if self is broken._core._answers:
            raise AssertionError("a bug")
        return take_in(self, event)

    monkeypatch.setattr(BookieAnswers, "add_answered", fails)

    futures = [one.append_async(b"x") for one in (broken, sound, broken, sound)]

    for future in futures[::2]:
        with pytest.raises(BookieUnavailableError, match=r"the writer failed: .*a bug"):
            future.result(20)
    assert [future.result(20) for future in futures[1::2]] == [0, 1]
    with pytest.raises(BookieUnavailableError, match="a bug"):
        broken.append(b"y")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert len(client._writers) == 1


@pytest.mark.actor_may_fail
def test_after_a_bug_in_the_actor_the_next_ledger_has_another_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = writers(client, 3)

    def fails(*_arguments: object) -> None:
        raise AssertionError("a bug of the actor")

    with monkeypatch.context() as patch:
        patch.setattr(WriterActor, "_take_in", fails)
        for one in before:
            with pytest.raises(BookieUnavailableError, match="a bug of the actor"):
                one.append(b"x", timeout=20)

    after = client.create_ledger(**ONE)
    assert after.append(b"x") == 0


def test_a_client_that_closes_answers_for_all_its_writers(world: BookieHere) -> None:
    client = world.connect()
    ledgers = writers(client, 5)
    futures = [ledger.append_async(b"x") for ledger in ledgers for _ in range(100)]

    client.close()

    for future in futures:
        error = future.exception(20)
        assert error is None or isinstance(error, LedgerClosedError | LedgerFencedError)
    with pytest.raises(ClientClosedError):
        ledgers[0].append(b"y")
    with pytest.raises(ClientClosedError):
        ledgers[0].append_many([b"y"])


def test_writers_that_are_dropped_or_closed_are_forgotten(client: Client) -> None:
    ledgers = writers(client, 6)
    futures = [ledger.append_async(b"x") for ledger in ledgers]
    for ledger in ledgers[:3]:
        ledger.close()
    del ledgers, ledger
    gc.collect()

    assert [future.result(20) for future in futures] == [0] * 6
    wait_until(lambda: not len(client._writers), what="the end of all writers")


def test_a_writer_that_is_dropped_ends_when_nothing_is_left_to_be_done() -> None:
    turns = Turns()
    idle, busy, ended = (turns.join(number) for number in range(3))
    ended.end(LedgerClosedError(2))
    idle.is_idle = True
    turns.door.dropped += [idle, busy, ended]

    turns.actor.on_receive(LookAround())

    assert isinstance(idle.error, LedgerClosedError)
    assert not busy.is_ended
    assert turns.door.dropped == [busy]

    busy.is_idle = True
    turns.actor.on_receive(LookAround())

    assert isinstance(busy.error, LedgerClosedError)
    assert turns.door.dropped == []
    assert turns.actor.writer_count == 0


def test_a_writer_that_leaves_ends() -> None:
    turns = Turns()
    one, other = turns.join(1), turns.join(2)

    turns.actor.on_receive(Leave(one))

    assert isinstance(one.error, LedgerClosedError)
    assert not other.is_ended


def test_the_earliest_time_that_a_writer_is_due_is_asked_for_once() -> None:
    turns = Turns()
    times_ms = turns.pool.times_ms
    turns.join(1, 100)
    early = turns.join(2, 50)
    turns.join(3, 50)
    turns.join(4, 70)
    turns.join(5)
    assert times_ms == [100, 50]

    early.end(LedgerClosedError(2))
    turns.actor.on_receive(TimePassed())
    assert times_ms == [100, 50, 50], "another one is due then, too"


def test_a_large_append_is_left_to_the_actors_own_thread(
    world: BookieHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a small one, and asked for in the thread of the connections.

    The actor's thread may have taken the message out of its inbox and wait for the turn.
    """
    monkeypatch.setattr(TurnQueue, "empty", lambda _self: True)
    with world.connect(writer_actor_count=1) as client:
        first, small, large = writers(client, 3)
        futures: list[Future[Any]] = []
        is_asked = threading.Event()

        def ask(_future: "Future[int]") -> None:
            futures.append(small.append_async(b"x"))  # rouses the actor in this thread, later
            futures.append(large.append_many([b"y" * 1_000] * 500))
            is_asked.set()

        first.append_async(b"x").add_done_callback(ask)

        assert is_asked.wait(20)
        assert [future.result(20) for future in futures] == [0, range(500)]


def test_appends_beyond_the_window_go_as_soon_as_there_is_room(world: BookieHere) -> None:
    with world.connect(window_size=64 * 1024, backlog_size=64 * 1024) as client:
        (writer,) = writers(client, 1)

        futures = [writer.append_async(b"x" * 16_000) for _ in range(200)]

        assert [future.result(20) for future in futures] == [*range(200)]


@pytest.mark.parametrize("count", [1, 3])
def test_ledgers_are_spread_over_the_actors(world: BookieHere, count: int) -> None:
    before = set(threading.enumerate())
    with world.connect(writer_actor_count=count) as client:
        for ledger in writers(client, 6):
            ledger.append(b"x")

        new = set(threading.enumerate()) - before
        threads = [one for one in new if one.name.startswith("WriterActor")]
        assert len(threads) == count
        assert all(one.daemon for one in threads), "a program that ends does not wait for them"


@pytest.mark.parametrize("how", ["stop", "failure", "leave", "drop"])
def test_an_end_that_fails_ends_no_other_writer_and_keeps_no_other_from_its_end(how: str) -> None:
    turns = Turns()
    failing, other = turns.join(1, body_type=Unending), turns.join(2)

    match how:
        case "stop":
            turns.actor.on_stop()
        case "failure":
            turns.actor.on_failure(RuntimeError, RuntimeError("another bug"), None)
        case "leave":
            turns.actor.on_receive(Leave(failing))
        case _:
            failing.is_idle = other.is_idle = True
            turns.door.dropped = [other, failing]  # taken from the end
            turns.actor.on_receive(LookAround())

    assert failing.is_ended
    assert other.is_ended == (how != "leave")
    assert turns.actor.writer_count == (how == "leave")
