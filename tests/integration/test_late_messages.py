"""What was on its way: lost in the middle, held back, delivered late; at real bookies."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress

import pytest

import zbk
from tests.chaos.cluster import PlacedCluster
from tests.chaos.network import ProxiedNetwork
from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.transport import dealer_socket

ENTRY = b"%08d" + b"." * 292
CUT_COUNT = 6
BATCH_COUNT = 60
BATCH_SIZE = 50  # entries


@pytest.fixture
def network() -> Iterator[ProxiedNetwork]:
    made = ProxiedNetwork(3)
    yield made
    made.close()


@pytest.fixture
def cluster(
    tmp_path_factory: pytest.TempPathFactory, network: ProxiedNetwork
) -> Iterator[PlacedCluster]:
    folder = tmp_path_factory.mktemp("late")
    uri = f"sqlite://{folder}/metadata.db"
    with PlacedCluster(folder / "data", 3, uri, network, disks=()) as running:
        yield running


@pytest.fixture
def client(cluster: PlacedCluster) -> Iterator[zbk.Client]:
    with zbk.connect(
        cluster.metadata_uri, request_timeout_ms=1_000, quorum_grace_ms=3_000
    ) as connected:
        yield connected


@pytest.fixture
def patient(cluster: PlacedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[zbk.Client]:
    """A client that waits for what is held back for as long as a test may take."""
    patience_ms = int(patient_s(60) * 1_000)
    monkeypatch.setattr(dealer_socket, "HEARTBEAT_TIMEOUT_MS", patience_ms)
    with zbk.connect(cluster.metadata_uri, request_timeout_ms=patience_ms) as connected:
        yield connected


def payloads(count: int, first: int = 0) -> list[bytes]:
    return [ENTRY % number for number in range(first, first + count)]


def append_through_cuts(ledger: zbk.LedgerWriter, network: ProxiedNetwork) -> "list[Future[range]]":
    """Append batches without waiting; each connection is cut in the middle of one, in turn."""
    futures: list[Future[range]] = []
    for number in range(CUT_COUNT):
        proxy = network.proxies[number % len(network.proxies)]
        before = proxy.cut_count
        proxy.cut_after(size=3_000 + 7_777 * number)
        for _ in range(BATCH_COUNT // CUT_COUNT):
            futures.append(ledger.append_many(payloads(BATCH_SIZE, BATCH_SIZE * len(futures))))
        wait_until(lambda p=proxy, n=before: p.cut_count > n, what="the cut")  # type: ignore[misc]
    return futures


@pytest.mark.parametrize("ledger_type", list(zbk.LedgerType))
def test_messages_lost_in_the_middle_of_pipelined_adds_are_sent_again(
    client: zbk.Client,
    cluster: PlacedCluster,
    network: ProxiedNetwork,
    ledger_type: zbk.LedgerType,
) -> None:
    """B44: each connection is cut several times, adds and answers are lost, and nothing else."""
    ledger = client.create_ledger(ledger_type=ledger_type)
    count = BATCH_COUNT * BATCH_SIZE
    futures = append_through_cuts(ledger, network)

    starts = [future.result(30).start for future in futures]

    assert starts == [number * BATCH_SIZE for number in range(BATCH_COUNT)]
    wait_until(lambda: is_synced(ledger, count - 1), what="every bookie's way back")
    assert ledger.close() == count - 1
    with client.open_ledger(ledger.ledger_id) as reader:
        assert [bytes(e.payload) for e in reader.read(0, count - 1)] == payloads(count)
        held = [held_batches(reader, bookie.bookie_id) for bookie in cluster.bookies]
    for number in range(BATCH_COUNT):
        assert sum(number in batches for batches in held) >= 2, f"batch {number}: {held}"


def is_synced(ledger: zbk.LedgerWriter, last: int) -> bool:
    """Return whether everything is durable; a bookie whose connection was cut last may be away."""
    try:
        return ledger.sync() == last
    except zbk.CannotAdvanceError:
        return False


def held_batches(reader: zbk.LedgerReader, bookie_id: str) -> set[int]:
    """Return the batches that a bookie has as a whole."""
    held = set()
    for number in range(BATCH_COUNT):
        first = number * BATCH_SIZE
        with suppress(zbk.NoSuchEntryError):
            found = list(reader.read(first, first + BATCH_SIZE - 1, bookie_id=bookie_id))
            assert [bytes(entry.payload) for entry in found] == payloads(BATCH_SIZE, first)
            held.add(number)
    return held


def test_a_close_ends_at_the_last_acknowledged_entry_whatever_was_pending(
    client: zbk.Client, network: ProxiedNetwork
) -> None:
    """B22: adds that no quorum answers fail, and are neither in the ledger nor in its length."""
    ledger = client.create_ledger()
    ledger.append_many(payloads(10)).result(10)
    for proxy in network.proxies[:2]:
        proxy.block()
    pending = [ledger.append_many(payloads(5, 10 + 5 * number)) for number in range(3)]

    last = ledger.close()

    assert last == 9
    for future in pending:
        error = future.exception(0)  # every future has its end by now
        assert isinstance(error, zbk.ZbkError)
        assert error.outcome == "unknown"
    for proxy in network.proxies:
        proxy.unblock()
    metadata = client.get_ledger_metadata(ledger.ledger_id)
    assert (metadata.last_entry_id, metadata.length) == (9, 10 * 300)
    with client.open_ledger(ledger.ledger_id) as reader:
        assert [bytes(e.payload) for e in reader.read(0, 9)] == payloads(10)
        with pytest.raises(zbk.ReadBeyondLacError):
            next(reader.read(0, 10))


def test_adds_that_arrive_after_another_client_closed_the_ledger_are_refused(
    patient: zbk.Client, cluster: PlacedCluster, network: ProxiedNetwork
) -> None:
    """B15: they were sent before the recovery and reach the bookies behind its fence."""
    ledger = patient.create_ledger()
    ledger.append_many(payloads(10)).result(10)
    for proxy in network.proxies:
        proxy.freeze()
    late = [ledger.append_many(payloads(1, number)) for number in range(10, 15)]

    with zbk.connect(cluster.metadata_uri) as taker:
        assert taker.recover_ledger(ledger.ledger_id).last_add_confirmed == 9
    for proxy in network.proxies:
        proxy.thaw()

    for future in late:
        with pytest.raises(zbk.LedgerFencedError) as caught:
            future.result(10)
        assert caught.value.outcome == "unknown"
    with pytest.raises((zbk.LedgerFencedError, zbk.LedgerClosedError)):
        ledger.close()
    with patient.open_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == 9
        assert [bytes(e.payload) for e in reader.read(0, 9)] == payloads(10)


def test_a_deleted_ledger_takes_nothing_from_its_old_writer(
    client: zbk.Client, cluster: PlacedCluster
) -> None:
    """B16: the fence outlives the ledger's metadata, and restarts of the bookies."""
    ledgers = [client.create_ledger() for _ in range(2)]
    for ledger in ledgers:
        ledger.append_many(payloads(10)).result(10)
    with zbk.connect(cluster.metadata_uri) as taker:
        for ledger in ledgers:
            taker.recover_ledger(ledger.ledger_id).close()
            taker.delete_ledger(ledger.ledger_id)

    with pytest.raises(zbk.LedgerFencedError):
        ledgers[0].append(ENTRY % 10)
    for bookie in cluster.bookies:
        cluster.kill(bookie.index)
        cluster.restart(bookie.index)
    with pytest.raises(zbk.ZbkError):
        ledgers[1].append(ENTRY % 10)
