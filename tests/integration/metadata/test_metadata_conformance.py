"""What every body of the metadata port does: one suite for memory, SQLite and a real ZooKeeper."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.at_once import run_at_once
from tests.support.metadata_bodies import Body
from tests.support.recorder import Recorder
from tests.support.threads import NewThreads
from zbk.errors import (
    BadVersionError,
    ClientClosedError,
    InvalidOptionError,
    MetadataConflictError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from zbk.metadata.stores.arguments import VALUE_SIZE_MAX
from zbk.metadata.stores.store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Node,
    Operation,
    SessionState,
    SetValue,
)

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


# ------------------------------------------------------------------ nodes


def test_a_node_is_read_as_it_was_made(store: MetadataStore, other: MetadataStore) -> None:
    store.create("/a", b"\x00value\xff")
    store.create("/empty")

    assert other.get("/a") == Node(b"\x00value\xff", 0)
    assert other.get("/empty") == Node(b"", 0)


def test_each_set_adds_one_to_the_version(store: MetadataStore, other: MetadataStore) -> None:
    store.create("/a", b"0")

    assert store.set("/a", b"1", 0) == 1
    assert other.set("/a", b"2", 1) == 2
    assert store.get("/a") == Node(b"2", 2)


def test_a_fresh_read_sees_what_another_session_was_answered(
    store: MetadataStore, other: MetadataStore
) -> None:
    store.create("/a", b"0")

    for version in range(20):
        store.set("/a", b"%d" % version, version)
        assert other.get("/a", is_fresh=True) == Node(b"%d" % version, version + 1)
    store.delete("/a")
    with pytest.raises(NoNodeError):
        other.get("/a", is_fresh=True)


def test_a_set_at_another_version_changes_nothing(store: MetadataStore) -> None:
    store.create("/a", b"0")
    store.set("/a", b"1", 0)

    for version in (0, 2, 99):
        with pytest.raises(BadVersionError, match=r"^/a: "):
            store.set("/a", b"x", version)
    assert store.get("/a") == Node(b"1", 1)


def test_a_node_made_anew_starts_at_version_zero(store: MetadataStore) -> None:
    store.create("/a")
    store.set("/a", b"1", 0)
    store.delete("/a")
    store.create("/a", b"new")

    assert store.get("/a") == Node(b"new", 0)


def test_a_path_is_taken_once(store: MetadataStore, other: MetadataStore) -> None:
    store.create("/a", b"first")

    for make in (store.create, other.create):
        with pytest.raises(NodeExistsError, match=r"^/a: "):
            make("/a", b"second")
    assert store.get("/a").value == b"first"


def test_a_parent_must_be_there_or_be_asked_for(store: MetadataStore) -> None:
    with pytest.raises(NoNodeError, match="/a/b/c"):
        store.create("/a/b/c")

    store.create("/a/b/c", b"x", make_parents=True)
    store.create("/a/b/d", b"y", make_parents=True)

    assert store.get("/a") == Node(b"", 0)
    assert store.children("/a/b") == ["c", "d"]
    with pytest.raises(NodeExistsError):
        store.create("/a/b/c", make_parents=True)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.get("/none"),
        lambda store: store.children("/none"),
        lambda store: store.set("/none", b"", 0),
        lambda store: store.delete("/none"),
        lambda store: store.delete("/none", 0),
    ],
    ids=["get", "children", "set", "delete", "delete at a version"],
)
def test_what_is_not_there_is_said_so(
    store: MetadataStore, ask: Callable[[MetadataStore], object]
) -> None:
    with pytest.raises(NoNodeError, match=r"^/none: "):
        ask(store)


def test_a_node_is_removed_at_its_version_and_without_children(store: MetadataStore) -> None:
    store.create("/a/b", make_parents=True)
    store.set("/a/b", b"1", 0)

    with pytest.raises(NotEmptyError, match=r"^/a: "):
        store.delete("/a")
    with pytest.raises(BadVersionError, match=r"^/a/b: "):
        store.delete("/a/b", 0)
    store.delete("/a/b", 1)
    store.delete("/a")
    assert store.children("/") == []


def test_children_are_sorted_names(store: MetadataStore) -> None:
    for name in ("b", "a", "\u00e9", "10", "9", "B"):
        store.create(f"/{name}")
    store.create("/a/below")

    assert store.children("/") == ["10", "9", "B", "a", "b", "\u00e9"]
    assert store.children("/a") == ["below"]
    assert store.children("/a/below") == []


def test_the_root_is_there_and_stays(store: MetadataStore) -> None:
    assert store.get("/").version == 0
    refusals: list[Callable[[], None]] = [
        lambda: store.create("/"),
        lambda: store.delete("/"),
    ]
    for refused in refusals:
        with pytest.raises(InvalidOptionError):
            refused()


def test_a_malformed_path_is_refused_everywhere(store: MetadataStore) -> None:
    for ask in (
        lambda: store.get("a"),
        lambda: store.children("/a/"),
        lambda: store.create("/../a"),
        lambda: store.set("//", b"", 0),
        lambda: store.delete("/a\0"),
        lambda: store.multi([Create("a")]),
        lambda: store.watch_children("a", lambda _names: None),
        lambda: store.watch_node("a", lambda _node: None),
    ):
        with pytest.raises(InvalidOptionError, match="path"):
            ask()


def test_a_value_may_be_as_large_as_the_limit(store: MetadataStore, other: MetadataStore) -> None:
    large = os.urandom(VALUE_SIZE_MAX)
    store.create("/a", large)
    assert other.get("/a").value == large
    store.set("/a", large[::-1], 0)
    assert other.get("/a").value == large[::-1]

    for refused in (
        lambda: store.create("/b", large + b"x"),
        lambda: store.set("/a", large + b"x", 1),
        lambda: store.multi([Create("/b", large)]),
    ):
        with pytest.raises(InvalidOptionError):
            refused()
    assert store.children("/") == ["a"]


def test_many_children_are_listed_whole(store: MetadataStore) -> None:
    names = [f"child-{number:04d}" for number in range(1000)]
    for start in range(0, 1000, 200):
        store.multi([Create(f"/{name}") for name in names[start : start + 200]])

    assert store.children("/") == names


def test_concurrent_sets_lose_no_update(body: Body, store: MetadataStore) -> None:
    store.create("/counter", b"0")

    def count(own: MetadataStore) -> None:
        for _ in range(25):
            while True:
                node = own.get("/counter")
                try:
                    own.set("/counter", b"%d" % (int(node.value) + 1), node.version)
                except BadVersionError:
                    continue
                break

    run_at_once([partial(count, body.open()) for _ in range(4)])

    assert store.get("/counter") == Node(b"100", 100)


def test_threads_may_share_a_store(store: MetadataStore) -> None:
    def make(first: int) -> None:
        for number in range(first, first + 20):
            store.create(f"/n{number}", b"%d" % number)
            assert store.get(f"/n{number}").value == b"%d" % number

    run_at_once([partial(make, first) for first in (0, 100, 200, 300)])

    assert len(store.children("/")) == 80


# ------------------------------------------------------------------ multi


def test_a_multi_does_all_of_it_in_order(store: MetadataStore, other: MetadataStore) -> None:
    store.create("/old", b"0")
    store.create("/gone")

    store.multi(
        [
            Check("/old", 0),
            SetValue("/old", b"1", 0),
            Check("/old", 1),
            Create("/new", b"n"),
            Create("/new/child", b"c"),
            Delete("/gone", 0),
            Create("/gone", b"again"),
        ]
    )

    assert other.get("/old") == Node(b"1", 1)
    assert other.get("/new/child") == Node(b"c", 0)
    assert other.get("/gone") == Node(b"again", 0)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Create("/a"), NodeExistsError),
        (Create("/none/x"), NoNodeError),
        (SetValue("/a", b"", 1), BadVersionError),
        (SetValue("/none", b"", 0), NoNodeError),
        (Delete("/a", 1), BadVersionError),
        (Delete("/none"), NoNodeError),
        (Delete("/full"), NotEmptyError),
        (Check("/a", 1), BadVersionError),
        (Check("/none", 0), NoNodeError),
        (Create("/first"), NodeExistsError),
    ],
    ids=str,
)
def test_a_multi_with_one_bad_part_does_nothing_and_says_which(
    store: MetadataStore, bad: Operation, error: type[MetadataConflictError]
) -> None:
    store.create("/a", b"0")
    store.create("/full/child", make_parents=True)

    good: list[Operation] = [
        Create("/first"),
        Delete("/full/child"),
        Create("/full/other"),
        Check("/a", 0),
    ]
    with pytest.raises(error, match=rf"^{bad.path}: "):
        store.multi([*good, bad, Delete("/never"), Create("/last")])

    assert store.get("/a") == Node(b"0", 0)
    assert store.children("/") == ["a", "full"]
    assert store.children("/full") == ["child"]


def test_an_empty_multi_does_nothing(store: MetadataStore) -> None:
    store.multi([])

    assert store.children("/") == []


# ------------------------------------------------------------------ sessions and ephemerals


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
