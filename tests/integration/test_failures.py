"""What survives when processes die, hang, or are missing: kill -9, SIGSTOP, garbage, restarts."""

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, pause
from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

ENTRY = b"%08d" + b"." * 92
PACE_S = 0.005  # between batches: a load that takes a whole core makes restarts slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three bookies of this test's own: it breaks them."""
    with LocalCluster(tmp_path / "data", bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(
        cluster.metadata_uri, quorum_grace_ms=2_000, request_timeout_ms=2_000
    ) as connected:
        yield connected


@pytest.fixture
def patient(cluster: LocalCluster) -> Iterator[zbk.Client]:
    """A client that waits until a restarted bookie has caught up, which may take long."""
    with zbk.connect(
        cluster.metadata_uri, quorum_grace_ms=20_000, request_timeout_ms=2_000
    ) as connected:
        yield connected


class Load:
    """Appends in a thread of its own and remembers what was acknowledged."""

    def __init__(self, ledger: zbk.LedgerWriter) -> None:
        self._ledger = ledger
        self._stopping = threading.Event()
        self.acked_count = 0
        self.error: zbk.ZbkError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        try:
            while not self._stopping.wait(PACE_S):
                batch = [ENTRY % n for n in range(number, number + 50)]
                number = self._ledger.append_many(batch).result(30).stop
                self.acked_count = number
        except zbk.ZbkError as error:
            self.error = error

    def wait_for_more(self, count: int) -> None:
        goal = self.acked_count + count
        wait_until(lambda: self.acked_count >= goal or self.error is not None, what="the load")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def check_all(client: zbk.Client, ledger_id: int, count: int) -> None:
    """Every one of ``count`` entries is there, in order, with its bytes."""
    with client.open_ledger(ledger_id) as reader:
        assert reader.last_add_confirmed >= count - 1
        found = [bytes(entry.payload) for entry in reader.read(0, count - 1)]
    assert found == [ENTRY % n for n in range(count)]


@pytest.mark.parametrize("ledger_type", list(zbk.LedgerType))
def test_kill_9_of_each_bookie_under_load_loses_nothing_acknowledged(
    patient: zbk.Client, cluster: LocalCluster, ledger_type: zbk.LedgerType
) -> None:
    ledger = patient.create_ledger(ledger_type=ledger_type)
    load = Load(ledger)
    for index in range(3):
        load.wait_for_more(500)
        cluster.kill(index)
        load.wait_for_more(500)
        cluster.restart(index)
        load.wait_for_more(500)
    load.stop()
    assert load.error is None

    ledger.close()

    check_all(patient, ledger.ledger_id, load.acked_count)


def test_kill_9_of_all_bookies_loses_nothing_acknowledged(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    ledgers = [client.create_ledger(ledger_type=kind) for kind in zbk.LedgerType]
    loads = [Load(ledger) for ledger in ledgers]
    for load in loads:
        load.wait_for_more(1_000)
    for index in range(3):
        cluster.kill(index)
    for load in loads:
        load.stop()
    for index in range(3):
        cluster.restart(index)

    for ledger, load in zip(ledgers, loads, strict=True):
        with client.open_ledger(ledger.ledger_id) as reader:
            found = [
                bytes(entry.payload) for entry in reader.read_unconfirmed(0, load.acked_count - 1)
            ]
        assert found == [ENTRY % n for n in range(load.acked_count)]


def test_a_restarted_bookie_serves_its_replicas(client: zbk.Client, cluster: LocalCluster) -> None:
    ledgers = []
    for kind in zbk.LedgerType:
        with client.create_ledger(ledger_type=kind) as ledger:
            ledger.append_many([ENTRY % n for n in range(5_000)]).result(20)
        ledgers.append(ledger)
    victim = cluster.bookies[1].bookie_id
    cluster.kill(1)
    assert cluster.restart(1).incarnation == 2

    for ledger in ledgers:
        with client.open_ledger(ledger.ledger_id) as reader:
            found = [bytes(e.payload) for e in reader.read(0, 4_999, bookie_id=victim)]
        assert found == [ENTRY % n for n in range(5_000)]


def test_a_clean_stop_and_start_keeps_everything(client: zbk.Client, cluster: LocalCluster) -> None:
    with client.create_ledger() as ledger:
        ledger.append_many([ENTRY % n for n in range(2_000)]).result(20)

    assert [cluster.terminate(index) for index in range(3)] == [0, 0, 0]
    for index in range(3):
        cluster.restart(index)

    check_all(client, ledger.ledger_id, 2_000)


@pytest.mark.parametrize("ledger_type", list(zbk.LedgerType))
def test_without_an_ack_quorum_appends_fail_clearly(
    client: zbk.Client, cluster: LocalCluster, ledger_type: zbk.LedgerType
) -> None:
    ledger = client.create_ledger(ledger_type=ledger_type)
    ledger.append(ENTRY % 0)
    cluster.kill(0)
    cluster.kill(1)

    with pytest.raises(zbk.NotEnoughBookiesError) as caught:
        ledger.append(ENTRY % 1)

    assert caught.value.outcome == "unknown"
    assert cluster.bookies[0].bookie_id in str(caught.value)
    with pytest.raises(zbk.NotEnoughBookiesError):
        ledger.append(ENTRY % 2)


def test_a_volatile_ledger_that_cannot_be_synced_says_so(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    with client.create_ledger(ledger_type="VD_JOURNAL") as ledger:
        ledger.append(ENTRY % 0)
        assert ledger.sync() == 0
        cluster.kill(0)
        assert ledger.append(ENTRY % 1) == 1
        assert ledger.sync() == 1  # two of three are a quorum


def test_a_bookie_down_at_create_is_not_in_the_ensemble(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    dead = cluster.bookies[2].bookie_id
    assert cluster.terminate(2) == 0
    wait_until(lambda: len(client.list_bookies()) == 2)

    with client.create_ledger(ensemble_size=2, write_quorum_size=2, ack_quorum_size=2) as ledger:
        ledger.append(ENTRY % 0)

    assert dead not in ledger.metadata.last_fragment.bookies
    check_all(client, ledger.ledger_id, 1)


def test_a_frozen_bookie_does_not_stop_the_others(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    ledger = client.create_ledger()
    ledger.append(ENTRY % 0)
    pause(cluster, 0)
    try:
        assert ledger.append(ENTRY % 1) == 1
    finally:
        cluster.resume(0)
    ledger.append(ENTRY % 2)
    ledger.close()

    check_all(client, ledger.ledger_id, 3)


def test_reads_go_on_at_the_other_replicas(client: zbk.Client, cluster: LocalCluster) -> None:
    with client.create_ledger() as ledger:
        ledger.append_many([ENTRY % n for n in range(3_000)]).result(20)
        wait_until(lambda: not ledger.unanswered_size, what="the copies beyond the quorum")
    cluster.kill(0)
    cluster.kill(2)

    check_all(client, ledger.ledger_id, 3_000)


def test_garbage_on_the_port_hurts_nobody(client: zbk.Client, cluster: LocalCluster) -> None:
    ledger = client.create_ledger()
    ledger.append(ENTRY % 0)
    for bookie in cluster.bookies:
        host, _, port = bookie.address.removeprefix("tcp://").rpartition(":")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10_000, b"\xff\0\0\0\0\0\0\0\x01\x7f"):
            with suppress(ConnectionError), socket.create_connection((host, int(port))) as raw:
                raw.sendall(garbage)

    assert ledger.append(ENTRY % 1) == 1
    ledger.close()
    assert cluster.deaths() == {}
    check_all(client, ledger.ledger_id, 2)


def test_close_to_a_dead_cluster_ends_with_an_error(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    ledger = client.create_ledger(ledger_type="VD_JOURNAL")
    ledger.append_many([ENTRY % n for n in range(10)]).result(10)
    for index in range(3):
        pause(cluster, index)  # or the two that are left would sync when the writer misses one
    for index in range(3):
        cluster.kill(index)

    with pytest.raises(zbk.NotEnoughBookiesError):
        ledger.append(ENTRY % 10)
    with pytest.raises(zbk.NotDurableError) as caught:
        ledger.close(timeout=0.5)

    assert caught.value.last_durable_id <= 9
    assert not client.get_ledger_metadata(ledger.ledger_id).is_closed


@pytest.fixture
def lazy(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three bookies that sync VD ledgers only when they are asked to."""
    with LocalCluster(tmp_path / "data", bookie_options=QUICK | {"sync_interval_ms": 0}) as running:
        yield running


@pytest.fixture
def hasty(lazy: LocalCluster) -> Iterator[zbk.Client]:
    """A client that waits for nothing for long, and asks for no sync by itself.

    A healthy bookie answers within its limits.
    """
    limits: zbk.ClientOptions = {
        "quorum_grace_ms": int(patient_s(0.3) * 1_000),
        "request_timeout_ms": int(patient_s(0.3) * 1_000),
        "default_timeout_ms": int(patient_s(1.0) * 1_000),
        "explicit_lac_ms": 0,
    }
    with zbk.connect(lazy.metadata_uri, **limits) as connected:
        yield connected


def append_until_it_fails(ledger: zbk.LedgerWriter, first: int) -> None:
    """What is on its way when bookies are stopped may be answered still."""
    for n in itertools.count(first):
        ledger.append(ENTRY % n)


def test_a_block_left_by_a_failed_append_keeps_what_was_acknowledged(
    hasty: zbk.Client, lazy: LocalCluster
) -> None:
    ledger = hasty.create_ledger(ledger_type="VD_JOURNAL")
    ledger.append_many([ENTRY % n for n in range(100)]).result(10)
    pause(lazy, 0)
    pause(lazy, 1)
    try:
        with pytest.raises(zbk.NotEnoughBookiesError) as caught, ledger:
            append_until_it_fails(ledger, 100)
    finally:
        lazy.resume(0)
        lazy.resume(1)

    last_acked_id = ledger.last_add_acknowledged
    assert last_acked_id >= 99
    assert any("stays open" in note for note in caught.value.__notes__)
    with pytest.raises(zbk.NotDurableError) as left_open:
        ledger.close(timeout=30)
    assert left_open.value.last_sent_id > last_acked_id, "others may have synced that"
    with hasty.recover_ledger(ledger.ledger_id, timeout=30) as recovered:
        assert recovered.last_add_confirmed >= last_acked_id
    check_all(hasty, ledger.ledger_id, recovered.last_add_confirmed + 1)


def test_a_partial_sync_returns_how_far_the_ledger_is_durable(
    hasty: zbk.Client, lazy: LocalCluster
) -> None:
    ledger = hasty.create_ledger(ledger_type="VD_JOURNAL", ack_quorum_size=3)
    ledger.append_many([ENTRY % n for n in range(10)]).result(10)
    assert ledger.sync(timeout=30, partial=True) == 9
    ledger.append_many([ENTRY % n for n in range(10, 20)]).result(10)
    lazy.kill(0)

    with pytest.raises(zbk.CannotAdvanceError) as caught:
        ledger.sync(timeout=30)
    assert caught.value.last_durable_id == 9
    assert ledger.sync(timeout=30, partial=True) == 9

    lazy.restart(0)
    assert ledger.close(timeout=30) == 19


def test_a_close_that_would_drop_acknowledged_entries_leaves_the_ledger_open(
    hasty: zbk.Client, lazy: LocalCluster
) -> None:
    kept, recovered, given_up = (
        hasty.create_ledger(ledger_type="VD_JOURNAL", ack_quorum_size=3) for _ in range(3)
    )
    for ledger in (kept, recovered, given_up):
        ledger.append_many([ENTRY % n for n in range(10)]).result(10)
        assert ledger.sync(timeout=30) == 9
    for ledger in (kept, recovered, given_up):
        ledger.append_many([ENTRY % n for n in range(10, 20)]).result(10)
    lazy.kill(0)

    for ledger in (kept, recovered):
        with pytest.raises(zbk.NotDurableError) as caught:
            ledger.close()
        assert (caught.value.last_durable_id, caught.value.last_acked_id) == (9, 19)
        assert f"`zbk ledger recover {ledger.ledger_id}`" in str(caught.value)
        assert not hasty.get_ledger_metadata(ledger.ledger_id).is_closed
    with pytest.raises(zbk.LedgerClosedError):
        kept.append(ENTRY % 20)
    assert given_up.close(timeout=10, accept_loss=True) == 9, "a loss that is accepted"
    lazy.restart(0)

    assert kept.close(timeout=30) == 19
    hasty.recover_ledger(recovered.ledger_id, timeout=30).close()
    for ledger in (kept, recovered):
        check_all(hasty, ledger.ledger_id, 20)
