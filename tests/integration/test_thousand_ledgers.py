"""One client with many ledgers, on real bookies: kills, a bookie that hangs, many threads."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, pause
from tests.support.machine import patient_s
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s
from zbk.transport import dealer_socket

WAIT_S = 60.0
SOAK_S = 60.0
SHORT_S = 2.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Four bookies of this test's own: it breaks them."""
    with LocalCluster(tmp_path / "data", bookie_count=4, bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(
        cluster.metadata_uri, quorum_grace_ms=10_000, request_timeout_ms=5_000
    ) as connected:
        yield connected


def payload_of(ledger_id: int, number: int) -> bytes:
    return b"%d of ledger %d" % (number, ledger_id)


class Chain:
    """Keeps one append unanswered in a ledger: the answer appends the next one."""

    def __init__(self, writer: zbk.LedgerWriter) -> None:
        self.writer = writer
        self.ledger_id = writer.ledger_id
        self.acked_count = 0
        self.error: BaseException | None = None
        self.is_idle = threading.Event()
        self._is_stopping = False
        self._next()

    def stop(self) -> None:
        self._is_stopping = True

    def _next(self) -> None:
        if self._is_stopping:
            self.is_idle.set()
            return
        number = self.acked_count
        try:
            future = self.writer.append_async(payload_of(self.ledger_id, number), timeout=0.0)
        except zbk.ZbkError as error:
            self._fail(error)
        else:
            future.add_done_callback(partial(self._answered, number))

    def _answered(self, number: int, future: "Future[int]") -> None:
        error = future.exception()
        if error is None and future.result() != number:
            error = AssertionError(f"append {number} has the id {future.result()}")
        if error is not None:
            self._fail(error)
            return
        self.acked_count += 1
        self._next()

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self.is_idle.set()


def wait_for_more(chains: list[Chain], count: int) -> None:
    """Wait until each ledger has so many more entries."""
    goals = [chain.acked_count + count for chain in chains]
    wait_until(
        lambda: all(
            chain.acked_count >= goal or chain.error is not None
            for chain, goal in zip(chains, goals, strict=True)
        ),
        what="appends to each ledger",
        timeout_s=WAIT_S,
    )


def check_whole(client: zbk.Client, chains: list[Chain]) -> None:
    """Each closed ledger has what was acknowledged, and nothing else."""
    for chain in chains:
        with client.open_ledger(chain.ledger_id) as reader:
            found = [bytes(entry.payload) for entry in reader.read(0, reader.last_add_confirmed)]
        assert found == [payload_of(chain.ledger_id, n) for n in range(chain.acked_count)]


@pytest.mark.parametrize("ledger_count", [150, pytest.param(1_000, marks=[pytest.mark.soak])])
def test_many_ledgers_lose_nothing_when_each_bookie_is_killed_in_turn(
    client: zbk.Client, cluster: LocalCluster, ledger_count: int
) -> None:
    writers = client.create_ledgers(ledger_count)
    chains = [Chain(writer) for writer in writers]
    for index in range(len(cluster.bookies)):
        wait_for_more(chains, 1)
        cluster.kill(index)
        wait_for_more(chains, 1)
        cluster.restart(index)
    wait_for_more(chains, 1)
    for chain in chains:
        chain.stop()
    for chain in chains:
        assert chain.is_idle.wait(WAIT_S)

    assert [chain.error for chain in chains if chain.error is not None] == []
    ends = client.close_all(writers, timeout=WAIT_S)

    assert ends == [chain.acked_count - 1 for chain in chains]
    check_whole(client, chains)


@pytest.fixture
def patient(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[zbk.Client]:
    """A client that replaces no bookie that hangs for as long as a test may take."""
    patience_ms = int(patient_s(WAIT_S) * 1_000)
    monkeypatch.setattr(dealer_socket, "HEARTBEAT_TIMEOUT_MS", patience_ms)
    with zbk.connect(cluster.metadata_uri, request_timeout_ms=patience_ms) as connected:
        yield connected


def test_a_bookie_that_hangs_delays_only_ledgers_that_need_it(
    patient: zbk.Client, cluster: LocalCluster
) -> None:
    lone = patient.create_ledgers(40, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
    whole = patient.create_ledgers(20)
    victim = cluster.bookies[0].bookie_id
    in_need = [one for one in lone if one.metadata.last_fragment.bookies == (victim,)]
    others = [one for one in lone if one not in in_need]
    assert in_need
    assert others
    pause(cluster, 0)
    try:
        waiting = [one.append_async(b"needs it") for one in in_need]
        for _ in range(20):
            for answer in [one.append_async(b"does not") for one in [*others, *whole]]:
                answer.result(WAIT_S)
            assert not any(answer.done() for answer in waiting)
    finally:
        cluster.resume(0)
    for answer in waiting:
        assert answer.result(WAIT_S) == 0
    assert patient.close_all([*lone, *whole], timeout=WAIT_S) == [
        0 if one in in_need else 19 for one in [*lone, *whole]
    ]


@pytest.mark.parametrize(
    "duration_s", [SHORT_S, pytest.param(SOAK_S, marks=[pytest.mark.soak])], ids=["short", "soak"]
)
def test_lone_appends_of_many_threads_keep_their_order(
    client: zbk.Client, duration_s: float
) -> None:
    own = client.create_ledgers(8)
    shared = client.create_ledger()
    deadline_s = monotonic_s() + duration_s
    counts = [0] * 8
    shared_ids: list[list[int]] = [[] for _ in own]

    def write(number: int) -> None:
        writer = own[number]
        while monotonic_s() < deadline_s:
            entry = payload_of(writer.ledger_id, counts[number])
            assert writer.append(entry) == counts[number]
            counts[number] += 1
            shared_ids[number].append(shared.append(b"%d" % number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(duration_s + WAIT_S)
    assert not any(thread.is_alive() for thread in threads)

    assert client.close_all(own, timeout=WAIT_S) == [count - 1 for count in counts]
    assert min(counts) > 0
    assert all(ids == sorted(ids) for ids in shared_ids)
    assert shared.close() == sum(counts) - 1
    with client.open_ledger(shared.ledger_id) as reader:
        entries = reader.read(0, reader.last_add_confirmed)
        by_id = {entry.entry_id: int(bytes(entry.payload)) for entry in entries}
    assert by_id == {entry_id: n for n, ids in enumerate(shared_ids) for entry_id in ids}
    for writer, count in zip(own, counts, strict=True):
        with client.open_ledger(writer.ledger_id) as reader:
            found = [bytes(entry.payload) for entry in reader.read(0, reader.last_add_confirmed)]
        assert found == [payload_of(writer.ledger_id, n) for n in range(count)]


@pytest.mark.soak
def test_ten_thousand_ledgers_are_open_in_one_client(client: zbk.Client) -> None:
    threads = NewThreads()
    writers = client.create_ledgers(10_000)

    answers = [writer.append_async(payload_of(writer.ledger_id, 0)) for writer in writers]

    assert [answer.result(WAIT_S) for answer in answers] == [0] * 10_000
    assert len(threads.names()) < 20
    assert client.close_all(writers, timeout=WAIT_S) == [0] * 10_000
