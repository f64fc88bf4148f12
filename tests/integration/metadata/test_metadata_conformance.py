"""Nodes and multis on every body of the metadata port: memory, SQLite and a real ZooKeeper."""

import os
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.at_once import run_at_once
from tests.support.metadata_bodies import Body
from zbk.errors import (
    BadVersionError,
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
    SetValue,
)

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
