"""An interrupt at a place that it would break."""

import signal
import threading
from collections.abc import Iterator

import pytest

from tests.support.interrupts import InterruptedLock, raising_handlers
from zbk.system.interrupts import SIGNALS, held, interrupted_later


@pytest.fixture
def handlers() -> Iterator[list[object]]:
    with raising_handlers():
        yield [signal.default_int_handler] * 3


def current() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_comes_at_the_end_of_the_block(
    number: signal.Signals, handlers: list[object]
) -> None:
    done = []

    def work() -> None:
        with interrupted_later():
            with interrupted_later():
                signal.raise_signal(number)
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()

    assert done == ["inner", "outer"]
    assert current() == handlers


def test_a_block_that_fails_is_interrupted_with_its_error_as_the_context(
    handlers: list[object],
) -> None:

    def fail() -> None:
        with interrupted_later():
            signal.raise_signal(signal.SIGTERM)
            raise ValueError("of the block")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()

    assert str(caught.value.__context__) == "of the block"
    assert current() == handlers


def test_without_an_interrupt_nothing_has_changed(handlers: list[object]) -> None:
    with interrupted_later():
        assert current() != handlers
    assert current() == handlers

    with pytest.raises(ValueError, match="of the block"), interrupted_later():
        raise ValueError("of the block")
    assert current() == handlers


def test_a_signal_that_is_ignored_stays_ignored(handlers: list[object]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_later():
        signal.raise_signal(signal.SIGHUP)

    assert current() == [*handlers[:2], signal.SIG_IGN]


def test_another_thread_leaves_the_handlers_alone(handlers: list[object]) -> None:
    seen: list[object] = []

    def work() -> None:
        with interrupted_later():
            seen.extend(current())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert seen == handlers


def test_a_lock_is_released_when_the_interrupt_comes_right_after_it_was_acquired(
    handlers: list[object],
) -> None:
    lock = threading.RLock()
    with pytest.raises(KeyboardInterrupt), held(InterruptedLock(lock), 1.0):  # type: ignore[arg-type]
        raise AssertionError("the interrupt comes before")

    assert is_free(lock)
    assert current() == handlers


def is_free(lock: "threading.RLock") -> bool:
    found: list[bool] = []

    def work() -> None:
        with held(lock, 0.0) as is_held:
            found.append(is_held)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found == [True]


def test_a_lock_that_another_thread_has_is_not_acquired_and_not_released() -> None:
    lock = threading.RLock()
    with held(lock, 0.0) as is_held:
        assert is_held
        assert not is_free(lock)
        assert not is_free(lock), "the other thread has not released it"
    assert is_free(lock)
