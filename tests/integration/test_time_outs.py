"""A time-out that a caller gives counts for the whole call, whoever is silent: one deadline.

The limits of single steps (a request, a call of the metadata store) are a minute here, so a step
that does not know of the caller's deadline makes the call take that long.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import zbk
from tests.support.cluster import pause
from tests.support.machine import patient_s
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from tests.support.zookeeper_proxy import GET_CHILDREN, ZooKeeperProxy
from zbk.cluster.local import LocalCluster
from zbk.cluster.zookeeper import LocalZooKeeper
from zbk.system.clock import monotonic_s

STEP_MS = 60_000
TIMEOUT_S = 1.0
LONGEST_S = 6.0
"""Below what it takes to notice a silent connection, and far above the time-out."""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper(tmp_path_factory.mktemp("time-outs-zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: LocalZooKeeper
) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("time-outs") / "data"
    with LocalCluster(folder, metadata=zookeeper.uri("/time-outs")) as running:
        yield running


@pytest.fixture
def proxy(zookeeper: LocalZooKeeper) -> Iterator[ZooKeeperProxy]:
    made = ZooKeeperProxy(zookeeper.port)
    yield made
    made.close()


@pytest.fixture
def client(cluster: LocalCluster, proxy: ZooKeeperProxy) -> Iterator[zbk.Client]:
    with zbk.connect(
        proxy.uri_like(cluster.metadata_uri),
        connect_timeout_ms=STEP_MS,
        request_timeout_ms=STEP_MS,
        session_timeout_ms=40_000,
    ) as connected:
        yield connected
        proxy.unblock()


@contextmanager
def silent_bookies(cluster: LocalCluster) -> Iterator[None]:
    with ExitStack() as resumed:
        for index in range(len(cluster.bookies)):
            resumed.callback(cluster.resume, index)
            pause(cluster, index)
        yield


@contextmanager
def in_time(timeout_s: float = TIMEOUT_S) -> Iterator[None]:
    """Expect that no answer comes, and that this is known soon after the time-out."""
    started_s = monotonic_s()
    with pytest.raises(zbk.UnavailableError):
        yield
    taken_s = monotonic_s() - started_s
    assert timeout_s * 0.9 <= taken_s < LONGEST_S


def written(client: zbk.Client) -> zbk.LedgerWriter:
    """Return the writer of a ledger with two entries, of which the first is confirmed."""
    ledger = client.create_ledger()
    ledger.append(b"0")
    ledger.append(b"1")
    return ledger


def test_a_tail_whose_bookies_are_silent(client: zbk.Client, cluster: LocalCluster) -> None:
    with client.open_ledger(written(client).ledger_id) as reader:
        reader.read_last_add_confirmed()
        with silent_bookies(cluster), in_time():
            next(reader.tail(timeout=TIMEOUT_S))


def test_a_tail_of_a_log_whose_metadata_store_is_silent(
    client: zbk.Client, proxy: ZooKeeperProxy
) -> None:
    with client.open_log("silent-store") as log:
        log.append(b"0")
        proxy.block()
        with in_time():
            client.tail_log("silent-store", timeout=TIMEOUT_S)
        proxy.unblock()
        with client.tail_log("silent-store", timeout=TIMEOUT_S) as tail:
            proxy.block()
            with in_time():
                next(tail)
            proxy.unblock()


def test_a_tail_of_a_log_whose_bookies_are_silent(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    with client.open_log("silent-bookies") as log:
        log.append(b"0")
        with (
            client.tail_log("silent-bookies", timeout=TIMEOUT_S) as tail,
            silent_bookies(cluster),
            in_time(),
        ):
            next(tail)


def test_a_recovery(client: zbk.Client, proxy: ZooKeeperProxy, cluster: LocalCluster) -> None:
    ledger_id = written(client).ledger_id
    proxy.block()
    with in_time():
        client.recover_ledger(ledger_id, timeout=TIMEOUT_S)
    proxy.unblock()
    with silent_bookies(cluster), in_time():
        client.recover_ledger(ledger_id, timeout=TIMEOUT_S)
    assert client.recover_ledger(ledger_id).last_add_confirmed == 1


def test_a_look_at_the_lac_and_a_read(client: zbk.Client, cluster: LocalCluster) -> None:
    with client.open_ledger(written(client).ledger_id) as reader:
        reader.read_last_add_confirmed()
        with silent_bookies(cluster):
            with in_time():
                reader.read_last_add_confirmed(timeout=TIMEOUT_S)
            with in_time():
                list(reader.read(0, 0, timeout=TIMEOUT_S))


def test_looks_at_the_lac_go_on_while_the_metadata_store_is_silent(
    client: zbk.Client, proxy: ZooKeeperProxy
) -> None:
    ledger = written(client)
    with client.open_ledger(ledger.ledger_id) as reader:
        proxy.block()
        for number in range(2, 12):
            ledger.append(b"%d" % number)
            began_s = monotonic_s()
            assert reader.read_last_add_confirmed() >= number - 1
            assert monotonic_s() - began_s < LONGEST_S
        proxy.unblock()
        ledger.close()
        wait_until(lambda: reader.read_last_add_confirmed() == 11 and reader.is_closed_ledger)


def test_a_round_of_garbage_collection(client: zbk.Client, cluster: LocalCluster) -> None:
    bookie_id = cluster.bookies[0].bookie_id
    client.bookie_info(bookie_id)
    with silent_bookies(cluster), in_time():
        client.collect_garbage(bookie_id, timeout=TIMEOUT_S)


def test_connecting_where_the_store_falls_silent(
    cluster: LocalCluster, proxy: ZooKeeperProxy
) -> None:
    threads = NewThreads()
    proxy.hold_next_request(GET_CHILDREN)  # for the bookies, after the session and the cluster
    with in_time(3.0):  # the store has to answer before it falls silent
        zbk.connect(proxy.uri_like(cluster.metadata_uri), connect_timeout_ms=3_000)
    assert proxy.request_is_held.is_set()
    proxy.release_request()
    names = {"zbk-dealer", "zbk-zookeeper-callbacks"}
    wait_until(lambda: names.isdisjoint(threads.names()), what="the threads of the client end")


@contextmanager
def silent_servers(count: int) -> Iterator[str]:
    """Yield the addresses of servers that take no connection: packets to them are dropped."""
    with ExitStack() as closed:
        addresses = []
        for _ in range(count):
            listener = closed.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            address = listener.getsockname()
            for _ in range(2):  # more than the backlog: what comes after them hears nothing
                filler = closed.enter_context(socket.socket())
                filler.settimeout(0)
                filler.connect_ex(address)
            addresses.append(f"127.0.0.1:{address[1]}")
        yield ",".join(addresses)


def test_connecting_to_servers_that_are_silent() -> None:
    with silent_servers(3) as hosts:
        started_s = monotonic_s()
        with pytest.raises(zbk.MetadataUnavailableError, match="within 3 s") as caught:
            # what is left of it is told, rounded, when the client comes to the session
            zbk.connect(f"zk://{hosts}/zbk", connect_timeout_ms=3_040)
        assert monotonic_s() - started_s < 3 + patient_s(1.5)
    for host in hosts.split(","):
        assert host in str(caught.value), "each is named, with what came of it"
