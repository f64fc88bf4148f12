"""The SQLite body: leases on a clock turned by hand, other writers, files that are none of ours."""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.interrupts import InterruptedLock, raising_handlers
from tests.support.recorder import Recorder
from tests.support.waiting import wait_until
from zbk.errors import (
    ForkedProcessError,
    InvalidOptionError,
    MetadataUnavailableError,
    NotEmptyError,
    UnsupportedVersionError,
)
from zbk.metadata.stores.sqlite import SqliteStore
from zbk.metadata.stores.store import Create, Node, SessionState
from zbk.system.clock import monotonic_ms
from zbk.system.deadline import within

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST
LEASE_MS = 3000
CHANGE_COUNT = 30
TURN_COUNT_MAX = 25  # of others, for each of ours, on average: three take turns


class Clock:
    """Milliseconds that grow when told."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class Place:
    """A file, and the stores that a test opened on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uri = f"sqlite://{path}"
        self.stores: list[SqliteStore] = []

    def open(
        self, now_ms: Callable[[], int] = monotonic_ms, timeout_s: float = 5.0, poll_ms: int = 5
    ) -> SqliteStore:
        store = SqliteStore(
            self.uri,
            timeout_s=timeout_s,
            session_timeout_ms=LEASE_MS,
            poll_ms=poll_ms,
            now_ms=now_ms,
        )
        self.stores.append(store)
        return store

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, timeout=5)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "m.db")
    yield place
    for store in place.stores:
        store.close()


def advance(store: SqliteStore, clock: Clock, by_ms: int, step_ms: int = LEASE_MS // 6) -> None:
    """Turn the clock on in steps, each of which the store's poll thread sees.

    The last step is one millisecond: when its poll begins, the one before it is over and done.
    """
    end_ms = clock.now_ms + by_ms
    steps_ms = [*range(clock.now_ms + step_ms, end_ms - 1, step_ms), end_ms - 1, end_ms]
    for clock.now_ms in steps_ms:
        wait_until(lambda: store._lease.polled_ms == clock.now_ms)


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


# ------------------------------------------------------------------ leases


def test_a_session_that_is_not_renewed_is_removed_by_whoever_polls(place: Place) -> None:
    frozen, clock = Clock(1_000_000), Clock(1_000_000)
    stuck = place.open(frozen)  # its clock stands still, so it never renews
    healthy = place.open(clock)
    stuck.create("/theirs", is_ephemeral=True)
    states: Recorder[SessionState] = Recorder()
    stuck.on_session(states)
    names: Recorder[list[str]] = Recorder()
    healthy.watch_children("/", names)
    names.wait_last(["theirs"])

    advance(healthy, clock, LEASE_MS - 2)
    assert healthy.children("/") == ["theirs"]
    advance(healthy, clock, 2)

    names.wait_last([])
    assert states.wait_count(3)[:3] == [SUSPENDED, LOST, CONNECTED]


def test_a_session_that_is_renewed_stays(place: Place) -> None:
    clock = Clock(1_000_000)
    one, two = place.open(clock), place.open(clock)
    one.create("/mine", is_ephemeral=True)

    for _ in range(8):
        clock.now_ms += LEASE_MS // 6
        for store in (one, two):
            wait_until(lambda store=store: store._lease.polled_ms == clock.now_ms)  # type: ignore[misc] # a default binds the loop's value
        wait_until(lambda: clock.now_ms - one._lease.renewed_ms < LEASE_MS // 3)

    assert two.children("/") == ["mine"]
    assert one.session_state() is CONNECTED


def test_who_was_away_itself_gives_the_others_time_before_it_judges(place: Place) -> None:
    frozen, clock = Clock(1_000_000), Clock(1_000_000)
    place.open(frozen).create("/theirs", is_ephemeral=True)
    sleeper = place.open(clock)

    advance(sleeper, clock, 10 * LEASE_MS, step_ms=10 * LEASE_MS)  # the whole machine was asleep
    advance(sleeper, clock, LEASE_MS // 2 - 3)
    assert sleeper.children("/") == ["theirs"]
    advance(sleeper, clock, 2)

    wait_until(lambda: sleeper.children("/") == [])


def test_a_deadline_of_before_the_hosts_last_start_is_over(place: Place) -> None:
    place.open(Clock(10**12)).create("/old", is_ephemeral=True)
    clock = Clock(1000)  # the host's clock has begun anew
    young = place.open(clock)

    wait_until(lambda: young.children("/") == [])


def test_a_store_whose_lease_is_over_says_doubt_before_anybody_can_tell_it(place: Place) -> None:
    clock = Clock(1_000_000)
    store = place.open(clock)
    blocker = place.connect()
    blocker.execute("BEGIN IMMEDIATE")  # so that it cannot renew
    assert store.session_state() is CONNECTED
    clock.now_ms += LEASE_MS

    assert store.session_state() is SUSPENDED
    blocker.execute("ROLLBACK")
    blocker.close()
    wait_until(lambda: store.session_state() is CONNECTED)


def test_a_lease_that_cannot_be_renewed_is_doubt_and_then_goes_on(place: Place) -> None:
    clock = Clock(1_000_000)
    store = place.open(clock)
    store.create("/mine", is_ephemeral=True)
    states: Recorder[SessionState] = Recorder()
    store.on_session(states)
    blocker = place.connect()
    blocker.execute("BEGIN IMMEDIATE")

    advance(store, clock, LEASE_MS * 2 // 3)
    states.wait_last(SUSPENDED)
    blocker.execute("ROLLBACK")
    blocker.close()

    assert states.wait_last(CONNECTED) == [SUSPENDED, CONNECTED]
    assert store.children("/") == ["mine"]


def test_no_ephemeral_node_is_made_for_a_session_that_is_gone(place: Place) -> None:
    store = place.open(poll_ms=60_000)  # so that it does not find out by itself
    states: Recorder[SessionState] = Recorder()
    store.on_session(states)
    thief = place.connect()
    thief.execute("DELETE FROM session")
    thief.close()

    with pytest.raises(MetadataUnavailableError, match="the session is lost"):
        store.create("/mine", is_ephemeral=True)

    assert states.wait_count(3) == [SUSPENDED, LOST, CONNECTED]
    store.create("/mine", is_ephemeral=True)
    store.close()
    assert place.open().children("/") == []


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


def test_an_interrupted_call_leaves_the_store_to_other_threads(place: Place) -> None:
    store = place.open()
    store._lock = InterruptedLock(store._lock)  # type: ignore[assignment]
    with raising_handlers(), pytest.raises(KeyboardInterrupt):
        store.create("/interrupted")

    other = threading.Thread(target=lambda: store.create("/other"))
    other.start()
    other.join()

    assert store.children("/") == ["other"]


class InterruptedConnection:
    """A connection; one interrupt arrives as soon as a statement has run."""

    def __init__(self, connection: sqlite3.Connection, statement: str) -> None:
        self._connection = connection
        self._statement = statement

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str, values: tuple[str | int | bytes, ...] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        found = self._connection.execute(statement, values)
        if statement == self._statement:
            self._statement = ""
            signal.raise_signal(signal.SIGINT)
        return found


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("BEGIN IMMEDIATE", lambda store: store.create("/interrupted")),
        ("COMMIT", lambda store: store.create("/interrupted")),
        ("BEGIN DEFERRED", lambda store: store.children("/")),
    ],
)
def test_an_interrupted_call_leaves_no_transaction_open(
    place: Place, statement: str, call: Callable[[SqliteStore], object]
) -> None:
    store, other = place.open(timeout_s=0.5), place.open(timeout_s=0.5)
    store._connection = InterruptedConnection(store._connection, statement)  # type: ignore[assignment]
    with raising_handlers(), pytest.raises(KeyboardInterrupt) as kept:  # with its frames
        call(store)

    other.create("/other")
    store.create("/next")

    assert {"other", "next"} <= set(store.children("/"))
    assert kept.value.__traceback__ is not None


def test_a_transaction_that_an_interrupt_has_left_open_ends_with_the_next_call(
    place: Place,
) -> None:
    store = place.open(timeout_s=0.5)
    store._connection.execute("BEGIN IMMEDIATE")

    store.create("/next")
    store._connection.execute("BEGIN DEFERRED")

    assert store.children("/") == ["next"]


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
