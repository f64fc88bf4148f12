"""Registrations on a store in memory that fails on cue: their sessions, and other processes."""

import logging
import threading
from contextlib import closing

import msgspec
import pytest

from tests.support.bookie_registry import B1, B1_READONLY, Cluster, cluster
from tests.support.late_store import LateCreations
from tests.support.memory_store import MemoryStore
from tests.support.recorder import Recorder
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.errors import MetadataUnavailableError, NodeExistsError
from zbk.metadata.paths import registration_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.registration import Registration, RegistrationState
from zbk.metadata.stores.store import SessionState
from zbk.metadata.values import encode

__all__ = ["cluster"]

REGISTERED = RegistrationState.REGISTERED
IN_DOUBT = RegistrationState.IN_DOUBT
LOST = RegistrationState.LOST
FAILED = RegistrationState.FAILED


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
