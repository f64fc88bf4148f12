"""The ZooKeeper body when connections are cut, the server hangs or dies, or is not there."""

import logging
import os
import socket
import threading

import pytest

from tests.support.at_once import run_at_once
from tests.support.machine import patient_s
from tests.support.recorder import Recorder
from tests.support.waiting import wait_until
from tests.support.zookeeper import drop_connection
from tests.support.zookeeper_proxy import EXISTS, ZooKeeperProxy
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.errors import ForkedProcessError, MetadataUnavailableError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.registration import RegistrationState
from zbk.metadata.stores.store import MetadataStore, Node, SessionState
from zbk.metadata.stores.zookeeper import ZooKeeperStore
from zbk.metadata.stores.zookeeper_connection import CLOSE_TIMEOUT_S
from zbk.metadata.values import BookieRegistration
from zbk.system.clock import monotonic_s

SOON_S = 8.0
"""A slow machine answers within it, and default time-outs are longer."""

CONNECTED, SUSPENDED, LOST = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST

BOOKIE = BookieRegistration(
    bookie_id="b1",
    address="tcp://127.0.0.1:1",
    incarnation=1,
    is_readonly=False,
    started_ms=1,
    version="0",
)


@pytest.fixture
def store(proxied: ZooKeeperStore) -> ZooKeeperStore:
    """A store whose connection goes through the proxy."""
    return proxied


# ------------------------------------------------------------------ lost connections


def test_a_cut_connection_comes_back_with_its_session_and_its_watches(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    states: Recorder[SessionState] = Recorder()
    names: Recorder[list[str]] = Recorder()
    store.create("/mine", is_ephemeral=True)
    store.on_session(states)
    store.watch_children("/", names)
    names.wait_last(["mine"])

    proxy.block()
    proxy.cut()
    states.wait_last(SUSPENDED)
    assert store.session_state() is SUSPENDED
    direct.create("/theirs")
    proxy.unblock()

    names.wait_last(["mine", "theirs"])
    assert states.items == [SUSPENDED, CONNECTED]
    assert direct.children("/") == ["mine", "theirs"]


def test_a_node_made_while_a_watch_is_being_set_on_its_absence_is_told(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    seen: Recorder[Node | None] = Recorder()
    proxy.hold_next_request(EXISTS)
    store.watch_node("/a", seen)
    assert proxy.request_is_held.wait(10)

    direct.create("/a", b"x")
    proxy.release_request()

    assert seen.wait_count(1) == [Node(b"x", 0)]


def test_calls_wait_for_the_connection_to_come_back(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    proxy.block()
    proxy.cut()
    wait_until(lambda: store.session_state() is SUSPENDED)
    thread = threading.Thread(target=store.create, args=("/a",))
    thread.start()
    proxy.unblock()

    thread.join(10)
    assert direct.children("/") == ["a"]


def test_a_call_is_given_up_at_its_deadline(
    proxy: ZooKeeperProxy, zookeeper_uri: str, direct: ZooKeeperStore
) -> None:
    direct.create("/a")
    store = ZooKeeperStore(proxy.uri_like(zookeeper_uri), timeout_s=2.0)  # of the opening, too
    proxy.block()

    for ask in (lambda: store.get("/a"), lambda: store.set("/a", b"", 0)):
        begin_s = monotonic_s()
        with pytest.raises(MetadataUnavailableError, match=r"within 2 s|for 2 s"):
            ask()
        assert monotonic_s() - begin_s < SOON_S
    proxy.unblock()
    store.close()


def test_reconnecting_prints_no_warning(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, caplog: pytest.LogCaptureFixture
) -> None:
    states: Recorder[SessionState] = Recorder()
    store.on_session(states)
    caplog.set_level(logging.INFO)

    proxy.cut()
    states.wait(lambda items: items[-1:] == [CONNECTED])
    drop_connection(store)
    states.wait(lambda items: items == [SUSPENDED, CONNECTED] * 2)
    store.close()

    loud = [r for r in caplog.records if r.levelno > logging.INFO]
    assert [record.getMessage() for record in loud] == []
    assert "zbk.metadata" in {record.name for record in caplog.records}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_that_dies_of_a_strange_reply_is_replaced(
    proxy: ZooKeeperProxy, store: ZooKeeperStore, direct: ZooKeeperStore
) -> None:
    states: Recorder[SessionState] = Recorder()
    names: Recorder[list[str]] = Recorder()
    store.create("/mine", is_ephemeral=True)
    store.on_session(states)
    store.watch_children("/", names)
    names.wait_last(["mine"])
    proxy.falsify_next_reply()

    with pytest.raises(MetadataUnavailableError):
        store.create("/a")

    states.wait_last(CONNECTED)
    assert LOST in states.items
    direct.create("/b")
    names.wait(lambda items: "b" in items[-1])
    store.create("/c")


# ------------------------------------------------------------------ a server that hangs or dies


def test_a_server_that_hangs_is_doubt_and_afterwards_the_bookie_is_registered(
    zookeeper_server: LocalZooKeeper, zookeeper_uri: str, direct: ZooKeeperStore
) -> None:
    # whether the session survives is a race of the server's own threads: both are fine
    initialise(direct)
    store = ZooKeeperStore(zookeeper_uri, session_timeout_ms=1000)
    states: Recorder[SessionState] = Recorder()
    changes: Recorder[RegistrationState] = Recorder()
    store.on_session(states)
    registration = BookieRegistry(store, session_timeout_ms=1000).register(BOOKIE, changes)

    zookeeper_server.pause()
    try:
        changes.wait_last(RegistrationState.IN_DOUBT)
        assert not registration.is_registered
    finally:
        zookeeper_server.resume()
    states.wait_last(CONNECTED)
    changes.wait_last(RegistrationState.REGISTERED)

    assert states.items[0] is SUSPENDED
    wait_until(lambda: registration.is_registered)
    wait_until(lambda: BookieRegistry(direct).available() == {"b1": BOOKIE})
    registration.close()
    store.close()


def test_after_a_long_partition_the_session_is_lost_and_the_registration_made_again(
    proxy: ZooKeeperProxy, zookeeper_uri: str, direct: ZooKeeperStore
) -> None:
    initialise(direct)
    session_ms = int(patient_s(1.0) * 1_000)
    store = ZooKeeperStore(proxy.uri_like(zookeeper_uri), session_timeout_ms=session_ms)
    states: Recorder[SessionState] = Recorder()
    changes: Recorder[RegistrationState] = Recorder()
    bookies: Recorder[list[str]] = Recorder()
    store.on_session(states)
    registration = BookieRegistry(store, session_timeout_ms=session_ms).register(BOOKIE, changes)
    direct.watch_children("/available", bookies)
    bookies.wait_last(["b1", "readonly"])

    proxy.block()
    bookies.wait_last(["readonly"])  # the server has given the session up, and cannot tell us
    wait_until(lambda: store.session_state() is SUSPENDED)
    assert not registration.is_registered
    proxy.unblock()

    states.wait_last(CONNECTED)
    assert states.items == [SUSPENDED, LOST, CONNECTED]
    changes.wait(lambda items: items[-2:] == [RegistrationState.LOST, RegistrationState.REGISTERED])
    assert changes.items[:2] == [RegistrationState.REGISTERED, RegistrationState.IN_DOUBT]
    wait_until(lambda: BookieRegistry(direct).available() == {"b1": BOOKIE})
    registration.close()
    store.close()


def test_a_server_that_was_killed_comes_back_with_everything(
    zookeeper_server: LocalZooKeeper, direct: ZooKeeperStore
) -> None:
    states: Recorder[SessionState] = Recorder()
    names: Recorder[list[str]] = Recorder()
    direct.on_session(states)
    direct.create("/stays", b"x")
    direct.create("/mine", is_ephemeral=True)
    direct.watch_children("/", names)
    names.wait_last(["mine", "stays"])

    zookeeper_server.kill()
    zookeeper_server.start()
    states.wait_last(CONNECTED)

    assert direct.get("/stays") == Node(b"x", 0)
    assert direct.children("/") == ["mine", "stays"]
    assert states.items == [SUSPENDED, CONNECTED]
    direct.create("/after")
    names.wait_last(["after", "mine", "stays"])


def test_closing_is_bounded_even_when_nobody_answers(
    proxy: ZooKeeperProxy, zookeeper_uri: str
) -> None:
    store = ZooKeeperStore(proxy.uri_like(zookeeper_uri), session_timeout_ms=60_000)
    proxy.block()
    begin_s = monotonic_s()
    store.close()

    assert CLOSE_TIMEOUT_S <= monotonic_s() - begin_s < CLOSE_TIMEOUT_S + SOON_S


# ------------------------------------------------------------------ addresses, other processes


def test_a_refused_connection_is_told_in_time_with_address_and_reason() -> None:
    begin_s = monotonic_s()
    with pytest.raises(MetadataUnavailableError) as caught:
        ZooKeeperStore("zk://127.0.0.1:1/zbk", timeout_s=0.3)

    assert monotonic_s() - begin_s < SOON_S
    assert "zk://127.0.0.1:1/zbk" in str(caught.value)
    assert "127.0.0.1:1: Connection refused" in str(caught.value)


def test_somebody_who_is_no_zookeeper_is_told_so_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        begin_s = monotonic_s()
        with pytest.raises(MetadataUnavailableError, match="grants no session"):
            ZooKeeperStore(f"zk://127.0.0.1:{port}/zbk", timeout_s=0.3)

    assert monotonic_s() - begin_s < SOON_S


def test_a_name_that_does_not_resolve_is_told_in_time() -> None:
    with pytest.raises(MetadataUnavailableError, match=r"no-such-host\.invalid:2181: "):
        ZooKeeperStore("zk://no-such-host.invalid/zbk", timeout_s=0.3)


def test_one_good_server_of_several_is_enough(zookeeper_server: LocalZooKeeper) -> None:
    store = ZooKeeperStore(f"zk://127.0.0.1:1,127.0.0.1:{zookeeper_server.port}/zbk")
    assert store.get("/").version == 0
    store.close()


def test_the_root_is_made_once_by_whoever_comes_first(zookeeper_server: LocalZooKeeper) -> None:
    uri = zookeeper_server.uri("/made/once/by/many")
    stores: list[MetadataStore] = []

    run_at_once([lambda: stores.append(ZooKeeperStore(uri)) for _ in range(4)])

    stores[0].create("/a")
    assert [store.children("/") for store in stores] == [["a"]] * 4
    for store in stores:
        store.close()


def test_a_forked_child_is_refused_at_once(direct: ZooKeeperStore) -> None:
    direct.create("/a")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            direct.get("/a")
        except ForkedProcessError:
            direct.close()  # which must not end the parent's session
            code = 0
        finally:
            os._exit(code)

    assert os.waitpid(pid, 0)[1] == 0
    direct.create("/mine", is_ephemeral=True)
    assert direct.children("/") == ["a", "mine"]
