"""Bookies that die while a ledger is written, on real processes: others take their places."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import pause
from tests.support.lost_bookies import Autorecoveries, Watched
from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.local import BOOKIE_PROGRAM, LocalCluster

ENTRY = b"%08d" + b"." * 92
QUICK = {"session_timeout_ms": 2_000}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def cluster(folder: Path) -> Iterator[LocalCluster]:
    """Five bookies of this test's own: it breaks them."""
    with LocalCluster(folder, bookie_count=5, bookie_options=QUICK) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[zbk.Client]:
    with zbk.connect(cluster.metadata_uri) as connected:
        yield connected


PACE_S = 0.005  # between batches: a load that takes a whole core makes changes slow


class Load:
    """Appends in a thread of its own, in batches or one by one, many at a time."""

    def __init__(self, ledger: zbk.LedgerWriter, *, is_many: bool) -> None:
        self._ledger = ledger
        self._append = self._append_many if is_many else self._append_each
        self._stopping = threading.Event()
        self.acked_count = 0
        self.error: zbk.ZbkError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(PACE_S):
                self.acked_count = self._append(self.acked_count)
        except zbk.ZbkError as error:
            self.error = error

    def _append_many(self, first: int) -> int:
        batch = [ENTRY % number for number in range(first, first + 50)]
        return self._ledger.append_many(batch).result(30).stop

    def _append_each(self, first: int) -> int:
        numbers = range(first, first + 50)
        futures = [self._ledger.append_async(ENTRY % number) for number in numbers]
        assert [future.result(30) for future in futures] == list(numbers)
        return numbers.stop

    def wait_for_more(self, count: int = 500) -> None:
        goal = self.acked_count + count
        wait_until(lambda: self.acked_count >= goal or self.error is not None, what="the load")
        assert self.error is None

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert self.error is None


def index_of(cluster: LocalCluster, bookie_id: str) -> int:
    return [bookie.bookie_id for bookie in cluster.bookies].index(bookie_id)


def kill(cluster: LocalCluster, bookie_id: str) -> None:
    cluster.kill(index_of(cluster, bookie_id))


def ensemble(ledger: zbk.LedgerWriter) -> tuple[str, ...]:
    return ledger.metadata.last_fragment.bookies


def wait_for_change(ledger: zbk.LedgerWriter, gone: str) -> None:
    wait_until(lambda: gone not in ensemble(ledger), what=f"the replacement of {gone}")


def check_all(client: zbk.Client, ledger_id: int, count: int) -> None:
    """Every one of ``count`` entries is there, in order, with its bytes."""
    with client.open_ledger(ledger_id) as reader:
        assert reader.last_add_confirmed >= count - 1
        found = [bytes(entry.payload) for entry in reader.read(0, count - 1)]
    assert found == [ENTRY % number for number in range(count)]


@pytest.mark.parametrize("is_many", [True, False], ids=["append_many", "append_async"])
def test_a_killed_bookie_is_replaced_under_load(
    client: zbk.Client, cluster: LocalCluster, is_many: bool
) -> None:
    ledger = client.create_ledger()
    load = Load(ledger, is_many=is_many)
    load.wait_for_more()
    victim, *others = ensemble(ledger)

    kill(cluster, victim)
    wait_for_change(ledger, victim)
    load.wait_for_more()
    load.stop()
    assert ledger.close() >= load.acked_count - 1

    stored = client.get_ledger_metadata(ledger.ledger_id)
    assert stored == ledger.metadata
    first, *_, last = stored.fragments
    assert victim in first.bookies
    assert victim not in last.bookies
    assert set(others) < set(last.bookies)
    assert 0 < last.first_entry_id < load.acked_count
    check_all(client, ledger.ledger_id, load.acked_count)
    kill(cluster, others[0])  # now two of the three that had the first entries are gone
    check_all(client, ledger.ledger_id, load.acked_count)


def test_two_are_killed_one_after_the_other(client: zbk.Client, cluster: LocalCluster) -> None:
    ledger = client.create_ledger()
    load = Load(ledger, is_many=True)
    victims = ensemble(ledger)[:2]
    for victim in victims:
        load.wait_for_more()
        kill(cluster, victim)
        wait_for_change(ledger, victim)
    load.wait_for_more()
    load.stop()
    ledger.close()

    assert not set(victims) & set(ensemble(ledger))
    assert len(ledger.metadata.fragments) >= 3
    check_all(client, ledger.ledger_id, load.acked_count)


def test_the_replacement_is_killed_as_well(client: zbk.Client, cluster: LocalCluster) -> None:
    ledger = client.create_ledger()
    load = Load(ledger, is_many=True)
    load.wait_for_more()
    victim, *others = ensemble(ledger)
    kill(cluster, victim)
    wait_for_change(ledger, victim)
    (replacement,) = set(ensemble(ledger)) - set(others)

    kill(cluster, replacement)
    wait_for_change(ledger, replacement)
    load.wait_for_more()
    load.stop()
    ledger.close()

    assert not {victim, replacement} & set(ensemble(ledger))
    check_all(client, ledger.ledger_id, load.acked_count)


def test_with_no_spare_two_of_three_go_on_until_one_comes(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    ledger = client.create_ledger()
    spares = [b.bookie_id for b in cluster.bookies if b.bookie_id not in ensemble(ledger)]
    for spare in spares:
        kill(cluster, spare)
    wait_until(lambda: len(client.list_bookies()) == 3, what="the spares to be gone")
    load = Load(ledger, is_many=True)
    load.wait_for_more()
    victim = ensemble(ledger)[1]

    kill(cluster, victim)
    load.wait_for_more()
    assert victim in ensemble(ledger)
    cluster.restart(index_of(cluster, spares[0]))
    wait_for_change(ledger, victim)
    load.wait_for_more()
    load.stop()
    ledger.close()

    assert spares[0] in ensemble(ledger)
    check_all(client, ledger.ledger_id, load.acked_count)


def test_a_striped_ledger_changes_its_ensemble(client: zbk.Client, cluster: LocalCluster) -> None:
    ledger = client.create_ledger(ensemble_size=4, write_quorum_size=3, ack_quorum_size=2)
    load = Load(ledger, is_many=True)
    load.wait_for_more()
    victim = ensemble(ledger)[2]

    kill(cluster, victim)
    wait_for_change(ledger, victim)
    load.wait_for_more()
    load.stop()
    ledger.close()

    check_all(client, ledger.ledger_id, load.acked_count)


def test_a_frozen_bookie_is_replaced_instead_of_slowing_the_writer(
    client: zbk.Client, cluster: LocalCluster
) -> None:
    ledger = client.create_ledger()
    load = Load(ledger, is_many=True)
    load.wait_for_more()
    victim = ensemble(ledger)[0]

    pause(cluster, index_of(cluster, victim))
    try:
        wait_for_change(ledger, victim)
        load.wait_for_more()
    finally:
        cluster.resume(index_of(cluster, victim))
    load.stop()
    ledger.close()

    check_all(client, ledger.ledger_id, load.acked_count)


def test_an_idle_writer_keeps_its_ensemble_whole(client: zbk.Client, cluster: LocalCluster) -> None:
    """B21: the last fragment is empty when the ledger is closed."""
    ledger = client.create_ledger()
    for number in range(3):
        ledger.append(ENTRY % number)
    victim = ensemble(ledger)[2]

    kill(cluster, victim)
    wait_for_change(ledger, victim)
    assert ledger.close() == 2

    assert [f.first_entry_id for f in ledger.metadata.fragments] == [0, 3]
    check_all(client, ledger.ledger_id, 3)


def test_a_ledger_is_recovered_when_every_bookie_of_its_first_fragment_is_gone(
    folder: Path,
) -> None:
    """B45: its last fragment is empty, and the metadata have the length before it."""
    with LocalCluster(folder, bookie_count=6, bookie_options=QUICK) as cluster:
        client = zbk.connect(cluster.metadata_uri)
        ledger = client.create_ledger()
        for number in range(3):
            ledger.append(ENTRY % number)
        victims = ensemble(ledger)
        for victim in victims:
            kill(cluster, victim)
            wait_for_change(ledger, victim)
        assert [f.first_entry_id for f in ledger.metadata.fragments] == [0, 3]

        with zbk.connect(cluster.metadata_uri) as other:
            other.recover_ledger(ledger.ledger_id).close()
            closed = other.get_ledger_metadata(ledger.ledger_id)
        client.close()

    assert closed.fragments[0].bookies == tuple(victims)
    assert (closed.last_entry_id, closed.length) == (2, 3 * len(ENTRY % 0))


def test_a_reader_sees_the_last_entry_of_an_idle_writer(client: zbk.Client) -> None:
    ledger = client.create_ledger()
    for number in range(3):
        ledger.append(ENTRY % number)

    with client.open_ledger(ledger.ledger_id) as reader:
        wait_until(lambda: reader.read_last_add_confirmed() == 2, what="the explicit LAC")
        assert bytes(next(iter(reader.read(2, 2))).payload) == ENTRY % 2
    ledger.close()


def test_bookies_of_different_racks_are_chosen(folder: Path) -> None:
    racks = ["rack0", "rack0", "rack0", "rack1", "rack2"]
    programs = {number: (*BOOKIE_PROGRAM, "--rack", rack) for number, rack in enumerate(racks)}
    with (
        LocalCluster(
            folder, bookie_count=5, bookie_options=QUICK, bookie_programs=programs
        ) as cluster,
        zbk.connect(cluster.metadata_uri, placement="rack") as client,
    ):
        rack_of = {bookie.bookie_id: bookie.rack for bookie in client.list_bookies()}
        ledgers = [client.create_ledger() for _ledger in range(3)]
        for ledger in ledgers:
            assert sorted(rack_of[bookie] for bookie in ensemble(ledger)) == racks[2:]
        victim = next(b for b in ensemble(ledgers[0]) if rack_of[b] == "rack0")

        kill(cluster, victim)
        wait_for_change(ledgers[0], victim)

        assert sorted(rack_of[bookie] for bookie in ensemble(ledgers[0])) == racks[2:]


def test_autorecovery_leaves_a_vd_ledger_to_its_healthy_writer(
    client: zbk.Client, cluster: LocalCluster, tmp_path: Path
) -> None:
    """The writer begins another fragment well within the grace period: nothing is fenced."""
    ledger = client.create_ledger(ledger_type="VD_JOURNAL")
    victim, *others = ensemble(ledger)
    count = 0

    def append_one() -> bool:
        nonlocal count
        assert ledger.append(ENTRY % count) == count
        count += 1
        return count % 10 > 0 or ledger.sync() >= count - 1

    def named() -> set[str]:
        fragments = client.get_ledger_metadata(ledger.ledger_id).fragments
        return {bookie_id for fragment in fragments for bookie_id in fragment.bookies}

    with (
        Autorecoveries(cluster.metadata_uri, tmp_path) as processes,
        ClusterConnection(cluster.metadata_uri) as connection,
    ):
        grace, longest_pause = (f"{int(patient_s(limit_s) * 1_000)}ms" for limit_s in (1.5, 1.6))
        processes.start(open_ledger_grace_ms=grace, repair_retry_ms_max=longest_pause)
        watched = Watched(connection)
        watched.wait_ready()
        assert append_one()
        kill(cluster, victim)
        wait_until(lambda: append_one() and victim not in ensemble(ledger), what="a new bookie")
        wait_until(lambda: append_one() and victim not in named(), what="the repair of the old one")
        wait_until(lambda: append_one() and not list(watched.tasks.list()), what="its end")

    stored = client.get_ledger_metadata(ledger.ledger_id)
    assert stored.state == zbk.LedgerState.OPEN
    assert stored.fragments[-1] == ledger.metadata.last_fragment
    assert set(others) < set(ensemble(ledger))
    assert ledger.close() == count - 1
    check_all(client, ledger.ledger_id, count)
