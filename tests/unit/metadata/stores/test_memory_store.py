"""The faults that a store in memory makes on cue. What it does otherwise: the conformance suite."""

import pytest

from tests.support.memory_store import MemoryTree
from tests.support.recorder import Recorder
from tests.support.threads import NewThreads
from zbk.errors import ClientClosedError, MetadataUnavailableError, NoNodeError
from zbk.metadata.stores.store import SessionState

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


def test_a_lost_reply_is_a_change_that_was_made() -> None:
    store = MemoryTree().open_session()
    store.lose_next_reply()

    with pytest.raises(MetadataUnavailableError):
        store.create("/a", b"x")
    assert store.get("/a").value == b"x"
    store.close()


def test_a_failed_call_is_a_change_that_was_not_made() -> None:
    store = MemoryTree().open_session()
    store.fail_next(2)

    for call in (lambda: store.create("/a"), lambda: store.get("/a")):
        with pytest.raises(MetadataUnavailableError):
            call()
    with pytest.raises(NoNodeError):
        store.get("/a")
    store.close()


def test_a_reply_that_says_no_is_not_the_one_that_gets_lost() -> None:
    store = MemoryTree().open_session()
    store.lose_next_reply()

    with pytest.raises(NoNodeError):
        store.set("/a", b"", 0)
    with pytest.raises(MetadataUnavailableError):
        store.create("/a")
    store.close()


def test_while_suspended_nobody_answers_and_afterwards_the_watches_catch_up() -> None:
    tree = MemoryTree()
    store, other = tree.open_session(), tree.open_session()
    seen: Recorder[list[str]] = Recorder()
    states: Recorder[SessionState] = Recorder()
    store.watch_children("/", seen)
    store.on_session(states)
    seen.wait_last([])

    store.suspend()
    with pytest.raises(MetadataUnavailableError, match="suspended"):
        store.children("/")
    other.create("/a")
    store.settle()
    assert seen.items == [[]]
    store.resume()

    seen.wait_last(["a"])
    assert states.items == [SUSPENDED, CONNECTED]
    store.close()
    other.close()


def test_a_session_that_expires_while_suspended_is_lost_at_resume() -> None:
    tree = MemoryTree()
    store, other = tree.open_session(), tree.open_session()
    states: Recorder[SessionState] = Recorder()
    store.on_session(states)
    store.create("/a", is_ephemeral=True)

    store.suspend()
    store.expire_session()
    assert other.children("/") == []
    store.settle()
    assert states.items == [SUSPENDED]
    store.resume()

    assert states.wait_count(3) == [SUSPENDED, LOST, CONNECTED]
    store.create("/a", is_ephemeral=True)
    store.close()
    other.close()


def test_a_callback_that_calls_its_store_is_our_own_bug() -> None:
    store = MemoryTree().open_session()
    raised: Recorder[str] = Recorder()

    def call_back(_names: list[str]) -> None:
        try:
            store.get("/")
        except AssertionError as error:
            raised(str(error))

    store.watch_children("/", call_back)

    assert raised.wait_count(1) == ["a callback may not call its store"]
    store.close()


def test_a_closed_store_leaves_no_thread_and_says_that_it_is_closed() -> None:
    threads = NewThreads()
    store = MemoryTree().open_session()
    store.close()

    with pytest.raises(ClientClosedError):
        store.get("/")
    assert store.session_state() is LOST
    assert threads.names() == []
