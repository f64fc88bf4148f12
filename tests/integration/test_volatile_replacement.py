"""Bookies die under VD writers, with entries that are acknowledged and not durable: spares join."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import pause
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

ENTRY = b"%08d" + b"." * 1_016
BATCH = 100


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Five bookies that sync VD ledgers only when they are asked to."""
    with LocalCluster(
        tmp_path / "data", bookie_count=5, bookie_options={"sync_interval_ms": 0}
    ) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    """A client whose writers do not sync by themselves while they append below their limit."""
    with zbk.connect(cluster.metadata_uri, quorum_grace_ms=10_000) as connected:
        wait_until(lambda: len(connected.list_bookies()) == 5)
        yield connected


@pytest.fixture
def quiet(cluster: LocalCluster) -> Iterator[zbk.Client]:
    """A client whose writers do not sync when they are idle, either."""
    with zbk.connect(cluster.metadata_uri, quorum_grace_ms=10_000, explicit_lac_ms=0) as connected:
        wait_until(lambda: len(connected.list_bookies()) == 5)
        yield connected


class FullSpeed:
    """Appends in a thread of its own, several batches ahead, and counts what is acknowledged."""

    def __init__(self, ledger: zbk.LedgerWriter) -> None:
        self._ledger = ledger
        self._stopping = threading.Event()
        self.acked_count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        under_way = []
        while not self._stopping.is_set():
            batch = [ENTRY % n for n in range(number, number + BATCH)]
            under_way.append(self._ledger.append_many(batch))
            number += BATCH
            if len(under_way) >= 8:
                self.acked_count = under_way.pop(0).result(60).stop
        for future in under_way:
            self.acked_count = future.result(60).stop

    def wait_for_more(self, count: int) -> None:
        goal = self.acked_count + count
        wait_until(lambda: self.acked_count >= goal or not self._thread.is_alive())
        assert self._thread.is_alive(), "appends failed"

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def kill(cluster: LocalCluster, bookie_id: str) -> None:
    ids = [bookie.bookie_id for bookie in cluster.bookies]
    cluster.kill(ids.index(bookie_id))


def ensemble(client: zbk.Client, ledger: zbk.LedgerWriter) -> tuple[str, ...]:
    return client.get_ledger_metadata(ledger.ledger_id).last_fragment.bookies


def has_left(client: zbk.Client, ledger: zbk.LedgerWriter, killed: tuple[str, ...]) -> bool:
    return not set(killed).intersection(ensemble(client, ledger))


def replace_two_under_load(
    client: zbk.Client, cluster: LocalCluster, ledger: zbk.LedgerWriter
) -> int:
    """Kill two of three bookies in turn while the writer appends; return what is acknowledged."""
    first = ensemble(client, ledger)
    load = FullSpeed(ledger)
    for killed in (first[:1], first[:2]):
        load.wait_for_more(1_000)
        kill(cluster, killed[-1])
        wait_until(partial(has_left, client, ledger, killed), what="a spare")
        load.wait_for_more(1_000)
    load.stop()
    assert len(set(ensemble(client, ledger)).intersection(first)) == 1
    return load.acked_count


def test_a_vd_writer_goes_on_with_spare_bookies_and_readers_see_what_is_synced(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    ledger = client.create_ledger(ledger_type="VD_JOURNAL")

    count = replace_two_under_load(client, cluster, ledger)
    assert ledger.sync(timeout=60) == count - 1

    with client.open_ledger(ledger.ledger_id) as reader:
        assert reader.last_add_confirmed == count - 1
        for n, entry in enumerate(reader.read(0, count - 1)):
            assert bytes(entry.payload) == ENTRY % n
    assert ledger.close() == count - 1
    assert client.get_ledger_metadata(ledger.ledger_id).format_version == 2


def test_what_is_acknowledged_and_not_durable_outlives_two_bookies_and_the_writer(
    quiet: zbk.Client, cluster: LocalCluster
) -> None:
    """The first ack quorum is gone, and nobody has synced: the new bookies caught up."""
    ledger = quiet.create_ledger(ledger_type="VD_JOURNAL")

    count = replace_two_under_load(quiet, cluster, ledger)

    with (
        zbk.connect(cluster.metadata_uri) as other,
        other.recover_ledger(ledger.ledger_id, timeout=60) as recovered,
    ):
        assert recovered.last_add_confirmed == count - 1
        for n, entry in enumerate(recovered.read(0, count - 1)):
            assert bytes(entry.payload) == ENTRY % n
    with pytest.raises(zbk.ZbkError):
        ledger.append(ENTRY % count)


def test_a_sync_of_another_client_holds_the_next_fragment_above_it(
    quiet: zbk.Client, cluster: LocalCluster
) -> None:
    ledger = quiet.create_ledger(ledger_type="VD_JOURNAL")
    ledger.append_many([ENTRY % n for n in range(100)]).result(30)

    with zbk.connect(cluster.metadata_uri) as other:
        assert other.sync_ledger(ledger.ledger_id) == 99
    assert quiet.get_ledger_metadata(ledger.ledger_id).reported_lac == 99
    ledger.append_many([ENTRY % n for n in range(100, 200)]).result(30)
    kill(cluster, ensemble(quiet, ledger)[0])
    ledger.append_many([ENTRY % n for n in range(200, 300)]).result(30)
    wait_until(lambda: len(quiet.get_ledger_metadata(ledger.ledger_id).fragments) == 2)

    fragments = quiet.get_ledger_metadata(ledger.ledger_id).fragments
    assert fragments[1].first_entry_id == 100
    assert ledger.close() == 299


def is_over(until_s: float) -> bool:
    return monotonic_s() > until_s


def test_spares_that_answer_nothing_do_not_hold_a_writer_for_long(cluster: LocalCluster) -> None:
    """They are stopped: their sockets accept connections. Acks wait a second, not a time-out.

    A spare joins unasked if the bookies that stay have all that moves, as on a PD ledger.
    """
    timeout_ms = 60_000
    with zbk.connect(
        cluster.metadata_uri, request_timeout_ms=timeout_ms, avoid_failed_ms=1_000
    ) as client:
        wait_until(lambda: len(client.list_bookies()) == 5)
        ledger = client.create_ledger(ledger_type="VD_JOURNAL")
        ledger.append_many([ENTRY % n for n in range(BATCH)]).result(30)
        members = ensemble(client, ledger)
        spares = [n for n, one in enumerate(cluster.bookies) if one.bookie_id not in members]
        for number in spares:
            pause(cluster, number)
        try:
            kill(cluster, members[0])
            begun_s = monotonic_s()
            for n in range(10):
                ledger.append_many([ENTRY % n for n in range(BATCH)]).result(30)
                wait_until(partial(is_over, begun_s + n / 2))
            assert monotonic_s() - begun_s < timeout_ms / 1_000 / 3
            assert set(members[1:]) <= set(ensemble(client, ledger))
        finally:
            for number in spares:
                cluster.resume(number)

        def has_left_under_load() -> bool:  # an idle writer needs no other bookie
            ledger.append(ENTRY % 0)
            return has_left(client, ledger, members[:1])

        wait_until(has_left_under_load, what="a spare that answers")
        last = ledger.last_add_pushed
        assert last >= 11 * BATCH
        assert ledger.close(timeout=60) == last
