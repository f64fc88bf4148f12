"""The leases of sessions of the SQLite body, on a clock turned by hand."""

import pytest

from tests.support.recorder import Recorder
from tests.support.sqlite_places import LEASE_MS, Place
from tests.support.waiting import wait_until
from zbk.errors import MetadataUnavailableError
from zbk.metadata.stores.sqlite import SqliteStore
from zbk.metadata.stores.store import SessionState

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST


class Clock:
    """Milliseconds that grow when told."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def advance(store: SqliteStore, clock: Clock, by_ms: int, step_ms: int = LEASE_MS // 6) -> None:
    """Turn the clock on in steps, each of which the store's poll thread sees.

    The last step is one millisecond: when its poll begins, the one before it is over and done.
    """
    end_ms = clock.now_ms + by_ms
    steps_ms = [*range(clock.now_ms + step_ms, end_ms - 1, step_ms), end_ms - 1, end_ms]
    for clock.now_ms in steps_ms:
        wait_until(lambda: store._lease.polled_ms == clock.now_ms)


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
