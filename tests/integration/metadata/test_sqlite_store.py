"""The SQLite body: its file, other writers, and files that are none of ours."""

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.sqlite_places import Place
from tests.support.waiting import wait_until
from zbk.errors import (
    ForkedProcessError,
    InvalidOptionError,
    MetadataUnavailableError,
    NotEmptyError,
    UnsupportedVersionError,
)
from zbk.metadata.stores.sqlite import SqliteStore
from zbk.metadata.stores.store import Create, Node
from zbk.system.clock import monotonic_ms
from zbk.system.deadline import within

CHANGE_COUNT = 30
TURN_COUNT_MAX = 25  # of others, for each of ours, on average: three take turns

# ------------------------------------------------------------------ durability


def test_what_was_committed_is_fsynced_in_a_wal_and_leases_are_not(place: Place) -> None:
    store = place.open()

    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert store._poll_connection.execute("PRAGMA synchronous").fetchone() == (1,)  # NORMAL


def test_nodes_outlive_the_stores_and_ephemeral_ones_do_not(place: Place) -> None:
    first = place.open()
    first.create("/a", b"x")
    first.create("/mine", is_ephemeral=True)
    first.close()

    second = place.open()
    assert second.children("/") == ["a"]
    assert second.get("/a") == Node(b"x", 0)


# ------------------------------------------------------------------ other writers


def test_a_file_locked_for_too_long_is_unavailable_in_bounded_time(place: Place) -> None:
    store = place.open(timeout_s=0.1)
    store.create("/a")
    blocker = place.connect()
    blocker.execute("BEGIN IMMEDIATE")

    with pytest.raises(MetadataUnavailableError, match="locked"):
        store.create("/b")
    assert store.get("/a") == Node(b"", 0)  # readers do not wait
    blocker.execute("ROLLBACK")
    blocker.close()
    store.create("/b")


def test_a_locked_file_is_not_waited_for_beyond_the_deadline_of_the_call(place: Place) -> None:
    store = place.open(timeout_s=60.0)
    blocker = place.connect()
    blocker.execute("BEGIN IMMEDIATE")

    began_ms = monotonic_ms()
    with within(0.1), pytest.raises(MetadataUnavailableError, match="locked"):
        store.create("/b")
    assert monotonic_ms() - began_ms < 30_000, "the store's own limit is 60 s"
    patient = threading.Thread(target=store.create, args=("/b",))
    patient.start()
    began_ms = monotonic_ms()
    wait_until(lambda: monotonic_ms() > began_ms + 200, what="longer than the deadline was away")
    assert patient.is_alive(), "a call without a deadline waits as long as the store says"
    blocker.execute("ROLLBACK")
    blocker.close()
    patient.join(20)
    assert store.get("/b") == Node(b"", 0)


def test_many_may_make_the_file_at_once(place: Place) -> None:
    failures: list[BaseException] = []

    def open_one() -> None:
        try:
            place.open()
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert failures == []
    assert [store.children("/") for store in place.stores] == [[]] * 8


def test_a_forked_child_is_refused_at_once(place: Place) -> None:
    store = place.open()
    store.create("/mine", is_ephemeral=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            store.get("/mine")
        except ForkedProcessError:
            store.close()  # which must not end the parent's session
            code = 0
        finally:
            os._exit(code)

    assert os.waitpid(pid, 0)[1] == 0
    assert store.children("/") == ["mine"]


# ------------------------------------------------------------------ files that are none of ours


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database, " * 100)


def _foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()


def _damaged(path: Path) -> None:
    store = SqliteStore(f"sqlite://{path}")
    for number in range(200):
        store.create(f"/n{number}", bytes(1000))
    store.close()
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)  # the schema's own page; the file's header stays
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_garbage, "is not an SQLite database"),
        (_foreign, "is a database of another program"),
        (_damaged, "is damaged"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused_and_left_alone(
    place: Place, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(place.path)
    before = place.path.read_bytes()

    with pytest.raises(InvalidOptionError, match=reason):
        place.open()
    assert place.path.read_bytes() == before


def test_a_refused_delete_costs_the_same_with_many_children(place: Place) -> None:
    """Each deletion of a ledger tries to remove its folder, with up to 10,000 others in it."""
    store = place.open()
    step_count = 0

    def steps_of_delete() -> int:
        nonlocal step_count
        step_count = 0
        with pytest.raises(NotEmptyError):
            store.delete("/folder")
        return step_count

    def count() -> int:
        nonlocal step_count
        step_count += 1
        return 0

    store.create("/folder")
    store.create("/folder/first")
    store._connection.set_progress_handler(count, 1)
    few = steps_of_delete()
    store.multi([Create(f"/folder/n{number}") for number in range(250)])

    assert 0 < steps_of_delete() <= few + 10


def test_a_file_of_a_newer_zbk_is_refused(place: Place) -> None:
    place.open().close()
    connection = place.connect()
    connection.execute("PRAGMA user_version = 2")
    connection.close()

    with pytest.raises(UnsupportedVersionError, match="schema version 2"):
        place.open()


def test_a_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be opened"):
        SqliteStore("sqlite:///proc/zbk.db")
    (tmp_path / "x.db").symlink_to(tmp_path / "none" / "y.db")
    with pytest.raises(InvalidOptionError, match="cannot be opened"):
        SqliteStore(f"sqlite://{tmp_path}/x.db")


def test_stores_that_write_all_the_time_do_not_starve_others(place: Place) -> None:
    """Two of them took every turn: another one waited for seconds, and lost its session."""
    patient = place.open()
    busy = [place.open(), place.open()]
    paths = [f"/busy{number}" for number in range(len(busy))]
    is_over = threading.Event()

    for path in paths:
        patient.create(path)

    def write(store: SqliteStore, path: str) -> None:
        version = 0
        while not is_over.is_set():
            version = store.set(path, b"x", version)

    def turns() -> int:
        return sum(patient.get(path).version for path in paths)

    threads = [threading.Thread(target=write, args=one) for one in zip(busy, paths, strict=True)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: turns() > 20, what="that both write")
        before = turns()
        for number in range(CHANGE_COUNT):
            patient.create(f"/patient{number}")
        taken = turns() - before
    finally:
        is_over.set()
        for thread in threads:
            thread.join()

    assert taken < CHANGE_COUNT * TURN_COUNT_MAX
