"""Callbacks: one thread, one at a time, in order, whatever they raise."""

import logging
import threading

import pytest

from tests.support.recorder import Recorder
from tests.support.threads import NewThreads
from zbk.metadata.stores.callbacks import (
    NOTHING,
    CallbackThread,
    Reading,
    SessionListeners,
    Subscription,
    children_reading,
    node_reading,
)
from zbk.metadata.stores.store import Node, SessionState


def test_callbacks_run_in_order_in_one_named_daemon_thread() -> None:
    callbacks = CallbackThread("zbk-test-callbacks")
    seen: Recorder[tuple[int, str, bool]] = Recorder()

    for number in range(3):
        callbacks.post(
            lambda n=number: seen(  # type: ignore[misc] # a default binds the loop's value
                (n, threading.current_thread().name, threading.current_thread().daemon)
            )
        )

    assert seen.wait_count(3) == [(n, "zbk-test-callbacks", True) for n in range(3)]
    callbacks.close()


def test_a_callback_that_raises_is_logged_and_the_next_one_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    callbacks = CallbackThread("zbk-test-callbacks")

    def fail() -> None:
        raise ValueError("boom")

    with caplog.at_level(logging.ERROR, "zbk.metadata"):
        callbacks.post(fail)
        assert callbacks.settle(5)
    callbacks.close()

    assert "boom" in caplog.text


def test_close_runs_what_was_posted_before_and_ends_the_thread() -> None:
    threads = NewThreads()
    callbacks = CallbackThread("zbk-test-callbacks")
    seen: list[int] = []
    callbacks.post(lambda: seen.append(1))

    callbacks.close()
    callbacks.post(lambda: seen.append(2))

    assert seen == [1]
    assert threads.names() == []


def test_a_subscription_tells_news_only() -> None:
    seen: list[Reading] = []
    subscription = Subscription("/a", seen.append, lambda: None)
    first = node_reading(1, Node(b"x", 0))
    changed = node_reading(1, Node(b"x", 1))
    made_anew = node_reading(2, Node(b"x", 0))

    for reading in (NOTHING, NOTHING, first, first, made_anew, changed, NOTHING):
        subscription.offer(reading)

    assert seen == [NOTHING, first, made_anew, changed, NOTHING]


def test_the_same_children_made_anew_are_news_and_no_children_are_none() -> None:
    seen: list[tuple[str, ...]] = []
    subscription = Subscription("/a", lambda reading: seen.append(reading.names), lambda: None)

    for reading in (
        NOTHING,
        children_reading(1, 0, []),
        children_reading(1, 2, ["b", "a"]),
        children_reading(1, 4, ["b", "a"]),
        children_reading(1, 6, []),
    ):
        subscription.offer(reading)

    assert seen == [(), ("a", "b"), ("a", "b"), ()]


def test_a_cancelled_subscription_is_silent_and_says_so_once() -> None:
    seen: list[Reading] = []
    cancelled: list[int] = []
    subscription = Subscription("/a", seen.append, lambda: cancelled.append(1))

    subscription.cancel()
    subscription.cancel()
    subscription.offer(NOTHING)

    assert seen == []
    assert cancelled == [1]


def test_a_cancelled_listener_hears_no_more() -> None:
    callbacks = CallbackThread("zbk-test-callbacks")
    listeners = SessionListeners(callbacks)
    stays: list[SessionState] = []
    goes: list[SessionState] = []
    listeners.add(stays.append)
    listener = listeners.add(goes.append)

    listeners.post(SessionState.SUSPENDED)
    assert callbacks.settle(5)
    listener.cancel()
    listeners.post(SessionState.CONNECTED)
    callbacks.close()

    assert goes == [SessionState.SUSPENDED]
    assert stays == [SessionState.SUSPENDED, SessionState.CONNECTED]
