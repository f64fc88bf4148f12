"""Watches, on every body of the metadata port."""

import threading

from tests.support.metadata_bodies import Body
from tests.support.recorder import Recorder
from zbk.metadata.stores.store import Create, MetadataStore, Node, SessionState, Watch

Names = list[str]


def test_children_are_told_now_and_after_each_change(
    store: MetadataStore, other: MetadataStore
) -> None:
    store.create("/a/old", make_parents=True)
    seen: Recorder[Names] = Recorder()
    store.watch_children("/a", seen)
    seen.wait_last(["old"])

    other.create("/a/new")
    seen.wait_last(["new", "old"])
    store.create("/a/mine")
    seen.wait_last(["mine", "new", "old"])
    other.delete("/a/old")

    assert seen.wait_last(["mine", "new"]) == [
        ["old"],
        ["new", "old"],
        ["mine", "new", "old"],
        ["mine", "new"],
    ]


def test_children_are_watched_before_and_after_the_life_of_their_parent(
    store: MetadataStore, other: MetadataStore
) -> None:
    seen: Recorder[Names] = Recorder()
    store.watch_children("/a/b", seen)
    seen.wait_last([])

    for _ in range(2):
        other.create("/a/b/c", make_parents=True)
        seen.wait_last(["c"])
        other.delete("/a/b/c")
        other.delete("/a/b")
        seen.wait_last([])
        other.delete("/a")

    assert seen.items == [[], ["c"], [], ["c"], []]


def test_a_child_made_anew_is_told_though_the_names_are_the_same(
    store: MetadataStore, other: MetadataStore
) -> None:
    other.create("/a/b", b"old", make_parents=True)
    seen: Recorder[Names] = Recorder()
    store.watch_children("/a", seen)
    seen.wait_last(["b"])

    other.delete("/a/b")
    other.create("/a/b", b"new")

    items = seen.wait(lambda items: len(items) >= 2 and items[-1] == ["b"])
    assert items in ([["b"], ["b"]], [["b"], [], ["b"]])


def test_a_childs_value_and_its_own_children_are_no_news(
    store: MetadataStore, other: MetadataStore
) -> None:
    other.create("/a/b", make_parents=True)
    seen: Recorder[Names] = Recorder()
    store.watch_children("/a", seen)
    seen.wait_last(["b"])

    other.set("/a/b", b"1", 0)
    other.set("/a", b"1", 0)
    other.create("/a/b/c")
    other.create("/a/z")

    assert seen.wait_last(["b", "z"]) == [["b"], ["b", "z"]]


def test_a_node_is_told_now_and_after_each_change(
    store: MetadataStore, other: MetadataStore
) -> None:
    seen: Recorder[Node | None] = Recorder()
    store.watch_node("/a/b", seen)
    seen.wait_last(None)

    other.create("/a/b", b"0", make_parents=True)
    seen.wait_last(Node(b"0", 0))
    other.set("/a/b", b"1", 0)
    seen.wait_last(Node(b"1", 1))
    store.set("/a/b", b"1", 1)  # the same value is a change all the same
    seen.wait_last(Node(b"1", 2))
    other.delete("/a/b")
    seen.wait_last(None)
    other.create("/a/b", b"1")
    seen.wait_last(Node(b"1", 0))

    assert len(seen.items) == 6


def test_a_node_made_anew_is_told_though_it_looks_the_same(
    store: MetadataStore, other: MetadataStore
) -> None:
    node = Node(b"x", 0)
    other.create("/a", b"x")
    seen: Recorder[Node | None] = Recorder()
    store.watch_node("/a", seen)
    seen.wait_last(node)

    other.delete("/a")
    other.create("/a", b"x")

    items = seen.wait(lambda items: len(items) >= 2 and items[-1] == node)
    assert items in ([node, node], [node, None, node])


def test_many_quick_changes_end_with_the_last(store: MetadataStore, other: MetadataStore) -> None:
    seen: Recorder[Node | None] = Recorder()
    other.create("/a")
    store.watch_node("/a", seen)
    for version in range(100):
        other.set("/a", b"%d" % version, version)

    versions = [node.version for node in seen.wait_last(Node(b"99", 100)) if node is not None]
    assert versions == sorted(set(versions))


def test_a_change_by_multi_is_told_too(store: MetadataStore, other: MetadataStore) -> None:
    seen: Recorder[Names] = Recorder()
    store.watch_children("/", seen)
    seen.wait_last([])

    other.multi([Create("/a"), Create("/b"), Create("/a/c")])

    assert seen.wait_last(["a", "b"]) == [[], ["a", "b"]]


def test_the_end_of_another_session_is_told(
    body: Body, store: MetadataStore, other: MetadataStore
) -> None:
    other.create("/theirs", b"x", is_ephemeral=True)
    names: Recorder[Names] = Recorder()
    node: Recorder[Node | None] = Recorder()
    store.watch_children("/", names)
    store.watch_node("/theirs", node)
    names.wait_last(["theirs"])
    node.wait_last(Node(b"x", 0))

    body.expire(other)

    names.wait_last([])
    node.wait_last(None)


def test_watches_outlive_their_session(
    body: Body, store: MetadataStore, other: MetadataStore
) -> None:
    states: Recorder[SessionState] = Recorder()
    names: Recorder[Names] = Recorder()
    node: Recorder[Node | None] = Recorder()
    missing: Recorder[Node | None] = Recorder()
    store.on_session(states)
    other.create("/a", b"0")
    store.watch_children("/", names)
    store.watch_node("/a", node)
    store.watch_node("/b", missing)
    names.wait_last(["a"])
    node.wait_last(Node(b"0", 0))
    missing.wait_last(None)

    body.expire(store)
    states.wait_last(SessionState.CONNECTED)
    other.set("/a", b"1", 0)
    other.create("/b", b"new")

    assert names.wait_last(["a", "b"]) == [["a"], ["a", "b"]]
    assert node.wait_last(Node(b"1", 1)) == [Node(b"0", 0), Node(b"1", 1)]
    assert missing.wait_last(Node(b"new", 0)) == [None, Node(b"new", 0)]


def test_a_cancelled_watch_is_silent_and_another_on_the_same_path_goes_on(
    store: MetadataStore, other: MetadataStore
) -> None:
    stays: Recorder[Names] = Recorder()
    goes: Recorder[Names] = Recorder()
    store.watch_children("/", stays)
    watch = store.watch_children("/", goes)
    stays.wait_last([])
    goes.wait_last([])

    watch.cancel()
    watch.cancel()
    other.create("/a")
    stays.wait_last(["a"])
    late: Recorder[Names] = Recorder()
    store.watch_children("/", late)
    late.wait_last(["a"])
    other.create("/b")

    assert stays.wait_last(["a", "b"]) == [[], ["a"], ["a", "b"]]
    assert late.wait_last(["a", "b"]) == [["a"], ["a", "b"]]
    assert goes.items == [[]]


def test_a_watch_may_be_cancelled_from_its_own_callback(
    store: MetadataStore, other: MetadataStore
) -> None:
    watches: list[Watch] = []
    once: list[Names] = []
    always: Recorder[Names] = Recorder()

    def cancel_at_first_news(names: Names) -> None:
        once.append(names)
        if names:
            watches[0].cancel()

    watches.append(store.watch_children("/", cancel_at_first_news))
    store.watch_children("/", always)
    always.wait_last([])
    other.create("/a")
    always.wait_last(["a"])
    other.create("/b")
    always.wait_last(["a", "b"])

    assert once[-1] == ["a"]


def test_callbacks_run_one_at_a_time_in_a_thread_of_the_stores_own(
    body: Body, store: MetadataStore, other: MetadataStore
) -> None:
    running = threading.Semaphore(1)
    threads: Recorder[tuple[threading.Thread, bool]] = Recorder()

    def note(_news: object) -> None:
        is_alone = running.acquire(blocking=False)
        threads((threading.current_thread(), is_alone))
        if is_alone:
            running.release()

    store.watch_children("/", note)
    store.watch_node("/a", note)
    store.on_session(note)
    threads.wait_count(2)
    other.create("/a")
    threads.wait_count(4)
    body.expire(store)

    calls = threads.wait_count(7)  # and three states of the session
    assert len({thread for thread, _ in calls}) == 1
    assert all(is_alone for _, is_alone in calls)
    assert calls[0][0].name.startswith("zbk-")
    assert calls[0][0].daemon


def test_a_callback_that_calls_its_store_is_our_own_bug(store: MetadataStore) -> None:
    raised: Recorder[str] = Recorder()

    def call_back(_names: Names) -> None:
        try:
            store.get("/")
        except AssertionError as error:
            raised(str(error))

    store.watch_children("/", call_back)

    assert raised.wait_count(1) == ["a callback may not call its store"]


def test_a_callback_that_raises_does_not_end_its_watch(
    store: MetadataStore, other: MetadataStore
) -> None:
    seen: Recorder[Names] = Recorder()

    def fail(names: Names) -> None:
        seen(names)
        raise ValueError("boom")

    store.watch_children("/", fail)
    seen.wait_last([])
    other.create("/a")

    assert seen.wait_last(["a"]) == [[], ["a"]]
