"""Cookies and registrations on a store in memory that fails on cue."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing

import msgspec
import pytest

from tests.support.hooked_store import HookedStore
from tests.support.late_store import LateCreations
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.recorder import Recorder
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.errors import (
    CorruptRecordError,
    InvalidOptionError,
    MetadataAccessError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from zbk.metadata.paths import registration_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.registration import Registration, RegistrationState
from zbk.metadata.stores.store import SessionState
from zbk.metadata.values import BookieRegistration, Cookie, encode

COOKIE = Cookie(
    bookie_id="b1", instance_id="i", journal_dirs=("/j",), ledger_dirs=("/l",), created_ms=1
)
B1 = BookieRegistration(
    bookie_id="b1",
    address="tcp://127.0.0.1:1",
    incarnation=1,
    is_readonly=False,
    started_ms=1,
    version="0",
)
B1_READONLY = msgspec.structs.replace(B1, is_readonly=True)
B2 = msgspec.structs.replace(B1, bookie_id="b2", address="tcp://127.0.0.1:2")

REGISTERED = RegistrationState.REGISTERED
IN_DOUBT = RegistrationState.IN_DOUBT
LOST = RegistrationState.LOST
FAILED = RegistrationState.FAILED


class Cluster:
    """A tree, the bookie's own client of it, and somebody else's."""

    def __init__(self) -> None:
        self.tree = MemoryTree("test")
        self.store = self.tree.open_session()
        self.other_store = self.tree.open_session()
        initialise(self.store)
        self.registry = BookieRegistry(self.store, session_timeout_ms=200)
        self.others = BookieRegistry(self.other_store, session_timeout_ms=200)

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


# ------------------------------------------------------------------ cookies


def test_a_cookie_is_kept_until_it_is_deleted(cluster: Cluster) -> None:
    assert cluster.registry.read_cookie("b1") is None
    cluster.registry.create_cookie(COOKIE)

    assert cluster.others.read_cookie("b1") == COOKIE
    assert cluster.others.cookies() == {"b1": COOKIE}
    cluster.others.delete_cookie("b1")
    assert cluster.registry.read_cookie("b1") is None
    with pytest.raises(NoNodeError):
        cluster.others.delete_cookie("b1")


def test_a_bookie_id_is_taken_once(cluster: Cluster) -> None:
    cluster.registry.create_cookie(COOKIE)

    with pytest.raises(NodeExistsError, match="has a cookie already"):
        cluster.others.create_cookie(msgspec.structs.replace(COOKIE, journal_dirs=("/k",)))
    assert cluster.registry.read_cookie("b1") == COOKIE


def test_a_cookie_whose_reply_was_lost_is_ours(cluster: Cluster) -> None:
    cluster.store.lose_next_reply()
    cluster.registry.create_cookie(COOKIE)

    assert cluster.registry.read_cookie("b1") == COOKIE


def test_a_cookie_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.store.fail_next()
    cluster.registry.create_cookie(COOKIE)

    assert cluster.registry.read_cookie("b1") == COOKIE


def test_an_unanswered_create_of_another_ones_cookie_is_not_ours(cluster: Cluster) -> None:
    cluster.others.create_cookie(msgspec.structs.replace(COOKIE, created_ms=2))
    cluster.store.fail_next()

    with pytest.raises(NodeExistsError, match="has a cookie already"):
        cluster.registry.create_cookie(COOKIE)


def test_a_store_that_does_not_answer_has_no_opinion_on_cookies(cluster: Cluster) -> None:
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError):
        cluster.registry.read_cookie("b1")


def test_without_a_cluster_nobody_registers() -> None:
    store = MemoryTree("empty").open_session()
    registry = BookieRegistry(store)

    with pytest.raises(InvalidOptionError, match="zbk up"):
        registry.create_cookie(COOKIE)
    with pytest.raises(InvalidOptionError, match="zbk up"):
        registry.register(B1)
    with pytest.raises(InvalidOptionError, match="zbk up"):
        registry.cookies()
    assert registry.available() == registry.readonly() == {}
    store.close()


# ------------------------------------------------------------------ histories


def history(cluster: Cluster) -> tuple[int, bool]:
    cookie = cluster.others.read_stored_cookie("b1")
    assert cookie is not None
    return cookie.incarnation, cookie.has_served


def raise_to(cluster: Cluster, incarnation: int, *, has_served: bool = True) -> bool:
    return cluster.registry.raise_incarnation("b1", incarnation, has_served=has_served)


def test_an_incarnation_is_raised_once_and_never_lowered(cluster: Cluster) -> None:
    cluster.registry.create_cookie(COOKIE)
    assert history(cluster) == (0, False)

    assert raise_to(cluster, 3, has_served=False)
    assert history(cluster) == (3, False)
    assert raise_to(cluster, 5)
    for taken in (5, 4, 0):
        assert not raise_to(cluster, taken)
    assert raise_to(cluster, 6, has_served=False)

    assert history(cluster) == (6, True), "what was served stays"
    assert cluster.registry.read_cookie("b1") == COOKIE
    cluster.registry.forget_served("b1")
    cluster.registry.forget_served("b1")
    assert history(cluster) == (6, False)
    assert cluster.others.read_stored_cookie("b2") is None
    with pytest.raises(NoNodeError):
        cluster.registry.raise_incarnation("b2", 1, has_served=True)


@pytest.mark.parametrize("count", [1, 3])
def test_an_incarnation_whose_reply_was_lost_was_raised(cluster: Cluster, count: int) -> None:
    cluster.registry.create_cookie(COOKIE)
    cluster.store.lose_next_reply(count)

    assert raise_to(cluster, 1)
    assert history(cluster) == (1, True)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_incarnation_that_nobody_answered_for_is_raised_again(
    cluster: Cluster, count: int
) -> None:
    cluster.registry.create_cookie(COOKIE)
    cluster.store.fail_next(count)

    assert raise_to(cluster, 1)
    assert history(cluster) == (1, True)


def hooked(cluster: Cluster) -> tuple[HookedStore, BookieRegistry]:
    store = HookedStore(cluster.tree)
    return store, BookieRegistry(store, pause=lambda _seconds: None)


class LateStore(MemoryStore):
    """A session whose first set is applied just before the second one."""

    sent_count = 0
    _late: tuple[str, bytes, int] | None = None

    def set(self, path: str, value: bytes, version: int) -> int:
        self.sent_count += 1
        if self.sent_count == 1:
            self._late = (path, value, version)
            raise MetadataUnavailableError(self.address, "the connection went")
        if self._late is not None:
            late, self._late = self._late, None
            super().set(*late)
        return super().set(path, value, version)


def test_a_refused_change_of_a_cookie_is_an_error_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was tried again for half a minute."""
    cluster.registry.create_cookie(COOKIE)

    def refused(*_args: object) -> int:
        raise MetadataAccessError("memory://", "refused")

    def paused(_seconds: float) -> None:
        pytest.fail("it is tried again")

    monkeypatch.setattr(cluster.store, "set", refused)
    registry = BookieRegistry(cluster.store, pause=paused)

    with pytest.raises(MetadataAccessError):
        registry.switch_readonly("b1", is_readonly=True)


def test_of_two_that_raise_to_the_same_incarnation_one_is_told_no(cluster: Cluster) -> None:
    cluster.registry.create_cookie(COOKIE)
    store, second = hooked(cluster)
    store.interrupt(lambda: raise_to(cluster, 2), "set")

    assert not second.raise_incarnation("b1", 2, has_served=True)
    store.interrupt(lambda: raise_to(cluster, 3), "set")
    assert second.raise_incarnation("b1", 4, has_served=True)

    assert history(cluster) == (4, True)
    store.close()


def test_an_attempt_that_is_applied_when_it_was_given_up_is_known_as_ours(
    cluster: Cluster,
) -> None:
    """The request was on its way when the connection went; the next attempt meets it."""
    cluster.registry.create_cookie(COOKIE)
    store = LateStore(cluster.tree)
    registry = BookieRegistry(store, pause=lambda _seconds: None)

    assert registry.raise_incarnation("b1", 1, has_served=True)

    assert store.sent_count == 2
    assert history(cluster) == (1, True)
    store.close()


def test_a_registration_that_the_store_applies_late_is_known_as_ours(cluster: Cluster) -> None:
    path = registration_path("b1", is_readonly=False)
    with closing(LateCreations(cluster.tree, path)) as store:
        registration = BookieRegistry(store, session_timeout_ms=200).register(B1)

        assert store.is_over
        assert registration.is_registered
        assert list(cluster.others.available()) == ["b1"]
        registration.close()


def test_who_starts_waits_for_an_earlier_process_to_be_unregistered(cluster: Cluster) -> None:
    cluster.others.wait_unregistered("b1")
    held = cluster.others.register(B1_READONLY)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        held.close()

    BookieRegistry(cluster.store, pause=pause).wait_unregistered("b1")

    assert len(pauses) == 1


def test_who_starts_beside_a_process_that_lives_is_told_where_that_is(cluster: Cluster) -> None:
    held = cluster.others.register(B1)

    with pytest.raises(NodeExistsError, match=r"registered at tcp://127.0.0.1:1, for over 0.3 s"):
        cluster.registry.wait_unregistered("b1")
    held.close()


def test_a_store_that_does_not_answer_for_a_moment_ends_no_wait(cluster: Cluster) -> None:
    cluster.store.fail_next(2)

    cluster.registry.wait_unregistered("b1")


# ------------------------------------------------------------------ registrations


def test_a_registered_bookie_is_found_until_it_closes(cluster: Cluster) -> None:
    threads = NewThreads()
    changes: list[RegistrationState] = []
    registration = cluster.registry.register(B1, changes.append)

    assert cluster.others.available() == {"b1": B1}
    assert cluster.others.resolve("b1") == B1
    assert registration.is_registered
    registration.close()
    registration.close()

    assert cluster.others.available() == {}
    assert cluster.others.resolve("b1") is None
    assert changes == [REGISTERED]
    assert threads.names("registration") == []


def test_a_registration_goes_with_its_session_and_is_made_again(cluster: Cluster) -> None:
    changes: Recorder[RegistrationState] = Recorder()
    registration = cluster.registry.register(B1, changes)

    cluster.store.expire_session()
    changes.wait(lambda items: items[-2:] == [LOST, REGISTERED])
    assert cluster.others.available() == {"b1": B1}
    registration.close()


def test_a_suspended_session_is_doubt_at_once(cluster: Cluster) -> None:
    changes: Recorder[RegistrationState] = Recorder()
    registration = cluster.registry.register(B1, changes)

    cluster.store.suspend()
    assert not registration.is_registered
    changes.wait_last(IN_DOUBT)
    cluster.store.resume()
    changes.wait_last(REGISTERED)

    assert changes.items == [REGISTERED, IN_DOUBT, REGISTERED]
    assert cluster.others.available() == {"b1": B1}
    registration.close()


def test_a_node_that_somebody_removed_is_made_again(cluster: Cluster) -> None:
    changes: Recorder[RegistrationState] = Recorder()
    registration = cluster.registry.register(B1, changes)

    for number in range(20):  # also when it is removed before any watch has seen it
        cluster.other_store.delete("/available/b1")
        assert changes.wait_count(2 * number + 3)[-2:] == [LOST, REGISTERED]
    registration.close()


def test_doubt_that_comes_while_it_registers_is_not_overwritten(cluster: Cluster) -> None:
    class SuspendedAtOnce(MemoryStore):
        """Its connection is lost as soon as a node is made."""

        def create(
            self,
            path: str,
            value: bytes = b"",
            *,
            is_ephemeral: bool = False,
            make_parents: bool = False,
        ) -> None:
            super().create(path, value, is_ephemeral=is_ephemeral, make_parents=make_parents)
            self.suspend()
            self.settle()

        def session_state(self) -> SessionState:
            state = super().session_state()
            if state is SessionState.SUSPENDED:
                looked.set()
            return state

    looked = threading.Event()
    store = SuspendedAtOnce(cluster.tree)
    changes: Recorder[tuple[RegistrationState, SessionState]] = Recorder()
    thread = threading.Thread(
        target=BookieRegistry(store).register,
        args=(B1, lambda state: changes((state, store.session_state()))),
    )
    thread.start()
    changes.wait_last((IN_DOUBT, SessionState.SUSPENDED))
    looked.clear()
    assert looked.wait(10)  # it goes on, and sees that it may not
    store.resume()
    thread.join(10)

    assert changes.items == [
        (IN_DOUBT, SessionState.SUSPENDED),
        (REGISTERED, SessionState.CONNECTED),
    ]
    store.close()


def test_a_lost_reply_is_no_other_bookie(cluster: Cluster) -> None:
    changes: Recorder[RegistrationState] = Recorder()
    cluster.store.lose_next_reply()
    registration = cluster.registry.register(B1, changes)
    assert cluster.others.available() == {"b1": B1}

    cluster.other_store.delete("/available/b1")  # and it is watched like any other
    assert changes.wait_count(3) == [REGISTERED, LOST, REGISTERED]
    registration.close()


def test_the_node_of_an_earlier_process_is_waited_out(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    former = msgspec.structs.replace(B1, incarnation=0)
    cluster.other_store.create("/available/b1", encode(former), is_ephemeral=True)
    patient = BookieRegistry(cluster.store, session_timeout_ms=20_000)
    made: Recorder[Registration] = Recorder()
    caplog.set_level(logging.INFO, "zbk.metadata")

    thread = threading.Thread(target=lambda: made(patient.register(B1)))
    thread.start()
    wait_until(lambda: "incarnation 0; waiting for it to go" in caplog.text)
    assert made.items == []
    cluster.other_store.expire_session()

    (registration,) = made.wait_count(1)
    thread.join()
    assert patient.available() == {"b1": B1}
    registration.close()


def test_a_second_process_of_a_live_bookie_is_refused(cluster: Cluster) -> None:
    first = cluster.others.register(B1)
    second = msgspec.structs.replace(B1, incarnation=2, address="tcp://127.0.0.1:9")
    changes: list[RegistrationState] = []

    with pytest.raises(NodeExistsError, match=r"held by tcp://127.0.0.1:1, incarnation 1 .* twice"):
        cluster.registry.register(second, changes.append)

    assert changes == [FAILED]
    assert first.is_registered
    assert cluster.registry.available() == {"b1": B1}
    first.close()


def test_a_store_that_does_not_answer_registers_nobody_in_bounded_time(cluster: Cluster) -> None:
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError, match="not registered within"):
        cluster.registry.register(B1, timeout_s=0.05)
    assert cluster.others.available() == {}


def test_a_bookie_moves_to_readonly_and_back_and_is_always_there(cluster: Cluster) -> None:
    registration = cluster.registry.register(B1)
    looks: list[bool] = []

    def look(_names: list[str]) -> None:
        with cluster.tree.lock:
            paths = ("/available/b1", "/available/readonly/b1")
            looks.append(any(cluster.tree.find(path) for path in paths))

    watch = cluster.other_store.watch_children("/available", look)
    registration.set_readonly(is_readonly=True)
    assert (cluster.others.available(), cluster.others.readonly()) == ({}, {"b1": B1_READONLY})
    assert cluster.others.resolve("b1") == B1_READONLY

    registration.set_readonly(is_readonly=False)
    assert (cluster.others.available(), cluster.others.readonly()) == ({"b1": B1}, {})
    cluster.other_store.settle()
    watch.cancel()
    assert looks
    assert all(looks)
    registration.close()


def test_a_readonly_bookie_comes_back_readonly_after_its_session_was_lost(cluster: Cluster) -> None:
    changes: Recorder[RegistrationState] = Recorder()
    registration = cluster.registry.register(B1, changes)
    registration.set_readonly(is_readonly=True)
    cluster.store.expire_session()

    changes.wait(lambda items: items[-2:] == [LOST, REGISTERED])
    assert (cluster.others.available(), cluster.others.readonly()) == ({}, {"b1": B1_READONLY})
    registration.close()


def test_a_switch_while_nobody_answers_is_made_afterwards(cluster: Cluster) -> None:
    registration = cluster.registry.register(B1)
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError):
        registration.set_readonly(is_readonly=True, timeout_s=0.05)
    cluster.store.resume()

    wait_until(lambda: cluster.others.readonly() == {"b1": B1_READONLY})
    assert cluster.others.available() == {}
    registration.close()


def test_a_store_closed_first_ends_the_registration_quietly(cluster: Cluster) -> None:
    changes: list[RegistrationState] = []
    registration = cluster.registry.register(B1, changes.append)
    cluster.store.close()
    registration.close()

    assert cluster.others.available() == {}
    assert changes == [REGISTERED]


# ------------------------------------------------------------------ looking at bookies


def test_a_watch_tells_who_is_there_now_and_after_each_change(cluster: Cluster) -> None:
    threads = NewThreads()
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    watch = cluster.others.watch_available(seen)
    seen.wait_last({})
    one = cluster.registry.register(B1)
    seen.wait_last({"b1": B1})
    two = cluster.registry.register(B2)
    seen.wait_last({"b1": B1, "b2": B2})
    one.close()
    seen.wait_last({"b2": B2})

    watch.cancel()
    count = len(seen.items)
    two.close()
    cluster.other_store.settle()
    assert len(seen.items) == count
    assert threads.names("bookies-watch") == []


def test_a_bookie_that_comes_back_elsewhere_is_news(cluster: Cluster) -> None:
    moved = msgspec.structs.replace(B1, address="tcp://127.0.0.1:7", incarnation=2)
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    cluster.registry.register(B1).close()
    first = cluster.registry.register(B1)
    watch = cluster.others.watch_available(seen)
    seen.wait_last({"b1": B1})

    first.close()
    second = cluster.registry.register(moved)

    seen.wait_last({"b1": moved})
    second.close()
    watch.cancel()


def test_a_watch_on_readonly_bookies_leaves_out_the_others(cluster: Cluster) -> None:
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    registration = cluster.registry.register(B1)
    watch = cluster.others.watch_readonly(seen)
    seen.wait_last({})

    registration.set_readonly(is_readonly=True)

    seen.wait_last({"b1": B1_READONLY})
    registration.close()
    watch.cancel()


def test_a_watch_reads_again_when_the_store_did_not_answer(cluster: Cluster) -> None:
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    registration = cluster.registry.register(B1)
    cluster.other_store.fail_next(1)
    watch = cluster.others.watch_available(seen)

    seen.wait_last({"b1": B1})
    registration.close()
    watch.cancel()


def test_a_registration_that_cannot_be_read_hides_no_other(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    registration = cluster.registry.register(B1)
    cluster.other_store.create("/available/b9", b"garbage", is_ephemeral=True)

    assert cluster.others.available() == {"b1": B1}
    assert "/available/b9" in caplog.text
    with pytest.raises(CorruptRecordError):
        cluster.others.resolve("b9")
    registration.close()
