"""An actor whose messages are handled where they come from, when it is idle: still an actor."""

import threading
from collections.abc import Callable, Iterator

import pykka
import pytest

from tests.support.waiting import wait_until
from zbk.system.direct_inbox import DirectInbox, Failed


class Recorder(DirectInbox, pykka.ThreadingActor):
    """Calls what it gets, and notes where that ran."""

    use_daemon_thread = True

    def __init__(self, made: "list[Recorder]") -> None:
        super().__init__()
        made.append(self)
        self.ran: list[tuple[object, int]] = []
        self.busy_count = 0
        self.failures: list[BaseException | None] = []

    def on_receive(self, message: object) -> None:
        if isinstance(message, Failed):
            raise message.error
        self.busy_count += 1
        assert self.busy_count == 1, "one message at a time"
        if callable(message):
            message()
        self.ran.append((message, threading.get_ident()))
        self.busy_count -= 1

    def on_failure(self, exception_type: object, exception_value: object, _: object) -> None:
        del exception_type
        assert isinstance(exception_value, BaseException)
        self.failures.append(exception_value)


@pytest.fixture
def actor() -> Iterator[Recorder]:
    made: list[Recorder] = []
    ref = Recorder.start(made)
    (actor,) = made
    ref.ask("it waits from now on")
    wait_until(lambda: is_idle(actor), what="the actor waits for a message")
    actor.ran.clear()
    yield actor
    ref.stop()


def is_idle(actor: Recorder) -> bool:
    inbox = actor.actor_inbox
    if inbox.try_begin():
        inbox.end()
        return True
    return False


def occupied(actor: Recorder) -> Callable[[], None]:
    """Keep the actor busy in its own thread; return what lets it go on."""
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(10)

    actor.actor_ref.tell(wait)
    assert begun.wait(10)
    return go_on.set


def test_an_idle_actors_message_is_handled_in_the_senders_thread(actor: Recorder) -> None:
    assert actor.handle_here("a")

    assert actor.ran == [("a", threading.get_ident())]


def test_a_busy_actor_is_left_to_itself(actor: Recorder) -> None:
    release = occupied(actor)

    assert not actor.handle_here("a")
    actor.actor_ref.tell("a")
    release()

    wait_until(lambda: [m for m, _ in actor.ran][1:] == ["a"], what="it was told")


def test_what_was_told_before_comes_first(actor: Recorder) -> None:
    release = occupied(actor)
    actor.actor_ref.tell("first")
    assert not actor.handle_here("second"), "it may not overtake"
    release()
    wait_until(lambda: len(actor.ran) == 2, what="both were handled")

    wait_until(lambda: actor.handle_here("second"), what="it is idle again")
    assert [m for m, _ in actor.ran][1:] == ["first", "second"]


def test_what_is_told_meanwhile_waits_for_the_end_of_the_message(actor: Recorder) -> None:
    def tell_another() -> None:
        actor.actor_ref.tell("inner")
        assert not actor.handle_here("again"), "a message is not handled inside of another"

    assert actor.handle_here(tell_another)

    wait_until(lambda: len(actor.ran) == 2, what="the inner one was handled")
    assert [m for m, _ in actor.ran] == [tell_another, "inner"]
    assert actor.ran[1][1] != threading.get_ident(), "by the actor's own thread"


@pytest.mark.actor_may_fail
def test_a_failure_ends_the_actor_in_its_own_thread_ahead_of_what_was_told_meanwhile(
    actor: Recorder,
) -> None:
    def fail() -> None:
        actor.actor_ref.tell("never handled")
        raise ValueError("the state is lost")

    assert actor.handle_here(fail)

    wait_until(lambda: bool(actor.failures), what="the failure was taken")
    assert isinstance(actor.failures[0], ValueError)
    wait_until(lambda: not actor.actor_ref.is_alive(), what="it has ended")
    assert actor.ran == []


def test_an_actor_that_has_stopped_handles_nothing(actor: Recorder) -> None:
    actor.actor_ref.stop()

    assert not actor.handle_here("late")
    assert actor.ran == []


def test_senders_of_both_kinds_never_meet_and_keep_their_order(actor: Recorder) -> None:
    count = 2_000

    def send(name: str) -> None:
        for number in range(count):
            if number % 3 == 0 or not actor.handle_here((name, number)):
                actor.actor_ref.tell((name, number))

    threads = [threading.Thread(target=send, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    wait_until(lambda: len(actor.ran) == 3 * count, what="all were handled")
    for name in "abc":
        own = [m[1] for m, _ in actor.ran if isinstance(m, tuple) and m[0] == name]
        assert own == list(range(count))
