"""One principal takes all that it can get, and others get theirs."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

import pytest
import zmq

import zbk
from tests.hostile.reads import MIB, Watch
from tests.hostile.strangers import PATIENCE_MS, Context, Socket
from tests.support.cluster import QUICK, lone_ledger
from tests.support.neighbor import Neighbor
from tests.support.secure_cluster import Keyring
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.errors import BusyError, from_wire
from zbk.security.keys import read_pair
from zbk.transport.curve import connect_encrypted
from zbk.transport.frames import receive_frames
from zbk.wire import codec
from zbk.wire.messages import Hello, HelloAnswer, Refused

CONNECTION_COUNT = 32
RSS_MAX = 400 * MIB
FLOODING_COUNT = 6
ENTRY = b"." * (64 * 1024)
BATCH = [ENTRY] * 64


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    names = ("bookie", "guest", "alice", "operator")
    return Keyring.of(tmp_path_factory.mktemp("keys"), *names)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, keys: Keyring) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    options = QUICK | {"connection_count_max": CONNECTION_COUNT}
    flags = ("--key", keys.path("bookie"))
    with LocalCluster(
        folder, bookie_count=1, bookie_options=options, bookie_flags=flags
    ) as running:
        for name in ("guest", "alice"):
            keys.admit(running, name, name)
        keys.admit(running, "operator", "operator", "operator")
        keys.wait_for(running, "guest", "alice", "operator")
        yield running


class Crowd:
    """Bare connections to a bookie."""

    def __init__(self, keys: Keyring, bookie: LocalBookie) -> None:
        self._keys = keys
        self._bookie = bookie
        self._context: Context = zmq.Context()
        self._sockets: list[Socket] = []

    def greet(self, name: str) -> object:
        """Open one more with a key; return the answer to its HELLO."""
        socket = self._context.socket(zmq.DEALER)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        server_key = self._keys.public("bookie").public_key
        connect_encrypted(socket, read_pair(self._keys.path(name)), server_key)
        socket.connect(self._bookie.address)
        socket.send(codec.encode(Hello(request_id=1)))
        assert socket.poll(PATIENCE_MS)
        return codec.decode_answer(receive_frames(socket)[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            one.close(0)
        self._context.term()


def test_a_guest_that_takes_all_connections_gets_half_of_them(
    cluster: LocalCluster, keys: Keyring
) -> None:
    with Crowd(keys, cluster.bookies[0]) as crowd:
        answers = [crowd.greet("guest") for _ in range(CONNECTION_COUNT)]
        taken = [isinstance(one, HelloAnswer) for one in answers]
        assert taken == [True] * (CONNECTION_COUNT // 2) + [False] * (CONNECTION_COUNT // 2)
        for one in answers[CONNECTION_COUNT // 2 :]:
            assert isinstance(one, Refused)
            assert isinstance(from_wire(one.code, tuple(one.fields)), BusyError)

        with keys.connect(cluster, "alice") as alice, lone_ledger(alice) as ledger:
            assert ledger.append(b"has a place") == 0
        operators = [crowd.greet("operator") for _ in range(12)]
        assert all(isinstance(one, HelloAnswer) for one in operators)


def test_a_guest_that_floods_delays_another_principal_by_less_than_a_second(
    cluster: LocalCluster, keys: Keyring
) -> None:
    """From several connections at once, each with as much on its way as its client lets it."""
    (bookie,) = cluster.bookies
    watch = Watch(bookie.pid)
    is_over = threading.Event()
    written: list[int] = []
    errors: list[Exception] = []

    def flood(client: zbk.Client) -> None:
        try:
            with lone_ledger(client) as ledger:
                while not is_over.is_set():
                    ledger.append_many(BATCH).result(60)
                    written.append(len(BATCH) * len(ENTRY))
        except Exception as error:  # noqa: BLE001 - the test fails with it
            errors.append(error)

    with ExitStack() as stack:
        alice = stack.enter_context(keys.connect(cluster, "alice"))
        guests = [
            stack.enter_context(keys.connect(cluster, "guest")) for _ in range(FLOODING_COUNT)
        ]
        threads = [threading.Thread(target=flood, args=(one,), daemon=True) for one in guests]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(written) >= FLOODING_COUNT or bool(errors))
            neighbor = stack.enter_context(Neighbor(alice))
            wait_until(
                lambda: (
                    (len(neighbor.took_ms) >= 50 and watch.look() > 0)
                    or bool(neighbor.errors or errors)
                ),
                timeout_s=120,
            )
        finally:
            is_over.set()
        for thread in threads:
            thread.join(120)
        assert errors == []
        neighbor.check()
    assert watch.size_max < RSS_MAX
    assert not cluster.deaths()
