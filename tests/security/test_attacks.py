"""Attacks on a bookie without keys, and a client beside them: no error, no long wait.

The bookie needs less than 300 MiB in each, and goes on.
"""

import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import zmq

import zbk
from tests.hostile.reads import MIB, Glutton, Watch
from tests.support.cluster import QUICK, lone_ledger
from tests.support.http import ask
from tests.support.limited_bookie import limited_program
from tests.support.machine import patient_s
from tests.support.neighbor import Neighbor
from tests.support.raw_peers import RawPeer, greeting
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.protocol.entry.digest import ledger_key
from zbk.protocol.entry.words import LedgerType
from zbk.wire import codec
from zbk.wire.messages import Hello, ReadLac

RSS_MAX = 300 * MIB
PATIENCE_MS = int(patient_s(30.0) * 1_000)
SILENT_COUNTS = [1_000, pytest.param(9_000, marks=pytest.mark.soak)]
SLOW_COUNT = 200
HTTP_COUNT = 1_000
HTTP_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
GLUTTON_COUNT = 6
READ_COUNT = 20_000
FENCE_COUNTS = [1_000, pytest.param(20_000, marks=pytest.mark.soak)]
DESCRIPTOR_COUNT = 256


class Scene:
    """One bookie, a client of it, and a neighbor."""

    def __init__(self, cluster: LocalCluster, client: zbk.Client) -> None:
        self.cluster = cluster
        self.client = client
        self.watch = Watch(self.bookie.pid)

    @property
    def bookie(self) -> LocalBookie:
        return self.cluster.bookies[0]

    def check(self, neighbor: Neighbor) -> None:
        neighbor.check()
        assert self.watch.look() < RSS_MAX
        assert self.watch.size_max < RSS_MAX
        assert not self.cluster.deaths()


@contextmanager
def scene(folder: Path, descriptor_count: int = 0) -> Iterator[tuple[Scene, Neighbor]]:
    programs = {0: limited_program(descriptor_count)} if descriptor_count else {}
    with (
        LocalCluster(
            folder,
            bookie_count=1,
            bookie_options=QUICK | {"handshake_ms": 1_000},
            bookie_programs=programs,
        ) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
        Neighbor(client) as neighbor,
    ):
        wait_until(lambda: bool(neighbor.took_ms or neighbor.errors))
        made = Scene(cluster, client)
        yield made, neighbor
        made.check(neighbor)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Raise the limit of this process to ten thousand descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 10_000:
        pytest.skip(f"this process may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 10_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("count", SILENT_COUNTS)
def test_silent_connections(tmp_path: Path, count: int) -> None:
    with scene(tmp_path / "data") as (one, _neighbor), ExitStack() as stack:
        peers = [stack.enter_context(RawPeer(one.bookie.address)) for _ in range(count)]
        for peer in peers:
            peer.wait_until_ended()
            one.watch.look()


def test_connections_that_greet_one_byte_at_a_time(tmp_path: Path) -> None:
    with scene(tmp_path / "data") as (one, _neighbor), ExitStack() as stack:
        left = [stack.enter_context(RawPeer(one.bookie.address)) for _ in range(SLOW_COUNT)]
        for number in range(len(greeting(b"NULL"))):
            byte = greeting(b"NULL")[number : number + 1]
            left = [peer for peer in left if sends(peer, byte)]
            one.watch.look()
        for peer in left:  # libzmq waits for the rest no longer than the handshake may take
            peer.wait_until_ended()


@pytest.mark.usefixtures("many_descriptors")
def test_http_requests_one_byte_at_a_time(tmp_path: Path) -> None:
    """Slowloris: more connections than the server has places, and none of them ends its request."""
    with scene(tmp_path / "data") as (one, neighbor), ExitStack() as stack:
        left = [stack.enter_context(RawPeer(one.bookie.http)) for _ in range(HTTP_COUNT)]
        answers = []
        for number in range(len(HTTP_REQUEST) - 1):
            byte = HTTP_REQUEST[number : number + 1]
            left = [peer for peer in left if sends(peer, byte)]
            answers.append(ask(f"{one.bookie.http}/livez").status)
            one.watch.look()
        assert set(answers) == {200}
        assert len(descriptors(one.bookie.pid)) < HTTP_COUNT // 2
        wait_for_more(neighbor)
        for peer in left:  # those that still have a place lose it at the deadline of a request
            peer.wait_until_ended()
        assert ask(f"{one.bookie.http}/metrics").status == 200


def descriptors(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())


def sends(peer: RawPeer, data: bytes) -> bool:
    try:
        peer.socket.sendall(data)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("is_greeting", [False, True], ids=["mute", "after the greeting"])
def test_more_connections_than_descriptors(tmp_path: Path, *, is_greeting: bool) -> None:
    with (
        scene(tmp_path / "data", DESCRIPTOR_COUNT) as (one, neighbor),
        ExitStack() as stack,
    ):
        for _ in range(2 * DESCRIPTOR_COUNT):
            with suppress(OSError):
                stack.enter_context(RawPeer(one.bookie.address, is_greeting=is_greeting))
            one.watch.look()
        wait_for_more(neighbor)


def test_readers_that_never_read(tmp_path: Path) -> None:
    with scene(tmp_path / "data") as (one, neighbor), ExitStack() as stack:
        with lone_ledger(one.client) as ledger:
            ledger.append_many([b"." * (MIB - 1)] * 16).result(30)
        peers = [
            stack.enter_context(
                Glutton(one.bookie.address, ledger.ledger_id, one.bookie.incarnation)
            )
            for _ in range(GLUTTON_COUNT)
        ]

        def is_enough() -> bool:
            assert one.watch.look() < RSS_MAX
            return sum(peer.sent_count for peer in peers) > READ_COUNT

        wait_until(is_enough, timeout_s=60)
        wait_for_more(neighbor)


@pytest.mark.parametrize("count", FENCE_COUNTS)
def test_a_storm_of_fences(tmp_path: Path, count: int) -> None:
    with scene(tmp_path / "data") as (one, neighbor):
        with lone_ledger(one.client) as ledger:
            ledger.append(b"x")
        fence = ReadLac(
            request_id=2,
            incarnation=one.bookie.incarnation,
            ledger_id=ledger.ledger_id,
            ledger_key=ledger_key(b"", ledger.ledger_id),
            ledger_type=LedgerType.PD_JOURNAL,
            is_fencing=True,
        )
        storm(one.bookie.address, codec.encode(fence), count, one.watch.look)
        wait_for_more(neighbor)


def storm(address: str, message: bytes, count: int, look: Callable[[], int]) -> None:
    """Send a message as often, in portions of which the answers come."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address)
        socket.send(codec.encode(Hello(request_id=1)))
        assert socket.poll(PATIENCE_MS)
        socket.recv_multipart()
        for _ in range(count // 100):
            for _ in range(100):
                socket.send(message)
            while socket.poll(0):
                socket.recv_multipart()
            look()


def wait_for_more(neighbor: Neighbor) -> None:
    """Wait until the neighbor has done more in the middle of the attack."""
    wanted = len(neighbor.took_ms) + 10
    wait_until(lambda: len(neighbor.took_ms) >= wanted or bool(neighbor.errors))
