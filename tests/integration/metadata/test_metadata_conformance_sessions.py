"""Sessions, ephemeral nodes and the end of a store, on every body of the metadata port."""

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.metadata_bodies import Body
from tests.support.recorder import Recorder
from tests.support.threads import NewThreads
from zbk.errors import ClientClosedError, MetadataConflictError
from zbk.metadata.stores.store import Create, MetadataStore, Node, SessionState

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


def test_an_ephemeral_node_goes_when_its_store_closes(
    store: MetadataStore, other: MetadataStore
) -> None:
    store.create("/mine", b"x", is_ephemeral=True)
    store.multi([Create("/mine-too", is_ephemeral=True), Create("/stays")])
    assert other.get("/mine") == Node(b"x", 0)

    store.close()

    assert other.children("/") == ["stays"]


def test_an_ephemeral_node_is_changed_like_any_other(
    store: MetadataStore, other: MetadataStore
) -> None:
    store.create("/mine", b"0", is_ephemeral=True)

    assert other.set("/mine", b"1", 0) == 1
    other.delete("/mine", 1)
    other.create("/mine", b"theirs", is_ephemeral=True)
    store.close()

    assert other.get("/mine").value == b"theirs"


def test_an_ephemeral_node_has_no_children(store: MetadataStore) -> None:
    store.create("/mine", is_ephemeral=True)

    attempts: list[Callable[[], None]] = [
        lambda: store.create("/mine/child"),
        lambda: store.multi([Create("/mine/child")]),
        lambda: store.create("/mine/child/grandchild", make_parents=True),
    ]
    for make in attempts:
        with pytest.raises(MetadataConflictError, match="an ephemeral node has no children"):
            make()


def test_a_lost_session_is_told_in_order_and_a_new_one_follows(
    body: Body, store: MetadataStore, other: MetadataStore
) -> None:
    states: Recorder[SessionState] = Recorder()
    store.on_session(states)
    store.create("/mine", is_ephemeral=True)
    store.create("/stays")
    assert store.session_state() is CONNECTED

    body.expire(store)

    assert states.wait_last(CONNECTED) == [SUSPENDED, LOST, CONNECTED]
    assert other.children("/") == ["stays"]
    assert store.session_state() is CONNECTED
    assert other.session_state() is CONNECTED

    store.create("/mine", b"of the new session", is_ephemeral=True)
    store.close()
    assert other.children("/") == ["stays"]


def test_a_cancelled_listener_hears_nothing(body: Body, store: MetadataStore) -> None:
    cancelled: list[SessionState] = []
    states: Recorder[SessionState] = Recorder()
    store.on_session(cancelled.append).cancel()
    store.on_session(states)

    body.expire(store)
    states.wait_last(CONNECTED)

    assert cancelled == []


@pytest.mark.parametrize("body", ["sqlite", "zookeeper"], indirect=True)
def test_the_ephemeral_nodes_of_a_killed_process_go_with_its_session(
    body: Body, store: MetadataStore
) -> None:
    code = (
        "import sys, threading\n"
        "from zbk.metadata.stores.connect import open_store\n"
        f"store = open_store({body.uri!r}, session_timeout_ms=1000)\n"
        "store.create('/theirs', is_ephemeral=True)\n"
        "store.create('/stays')\n"
        "print('ready', flush=True)\n"
        "threading.Event().wait()\n"
    )
    seen: Recorder[list[str]] = Recorder()
    store.watch_children("/", seen)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        seen.wait_last(["stays", "theirs"])
        process.send_signal(signal.SIGKILL)

    seen.wait_last(["stays"])


def test_a_closed_store_says_so(store: MetadataStore) -> None:
    store.close()
    store.close()

    assert store.session_state() is LOST
    for ask in (
        lambda: store.get("/"),
        lambda: store.create("/a"),
        lambda: store.multi([Create("/a")]),
        lambda: store.watch_node("/a", lambda _node: None),
        lambda: store.on_session(lambda _state: None),
    ):
        with pytest.raises(ClientClosedError):
            ask()


def test_closed_stores_leave_no_threads(body: Body) -> None:
    threads = NewThreads()
    store = body.open()
    store.watch_children("/", lambda _names: None)
    store.close()

    assert threads.names() == []


def test_a_store_tells_its_address(body: Body, store: MetadataStore) -> None:
    assert store.address == body.uri
