"""One thread of a client follows many ledgers, on real bookies: kills, deletions, idle ledgers."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK
from tests.support.threads import NewThreads
from zbk.cluster.local import LocalCluster
from zbk.system.clock import monotonic_s

WAIT_S = 60.0
APPEND_COUNT = 12


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


class Follower:
    """Follows ledgers in one thread until all of them are closed."""

    def __init__(self, client: zbk.Client, ledger_ids: list[int]) -> None:
        self._group = client.tail_group()
        for ledger_id in ledger_ids:
            self._group.add(client.open_ledger(ledger_id))
        self.payloads: dict[int, list[bytes]] = defaultdict(list)
        self.ended: list[int] = []
        self.errors: dict[int, zbk.ZbkError] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for item in self._group:
            if item.batch is None:
                self.ended.append(item.reader.ledger_id)
                if item.error is not None:
                    self.errors[item.reader.ledger_id] = item.error
                continue
            for entry in item.batch.entries():
                known = self.payloads[entry.ledger_id]
                assert entry.entry_id == len(known), "in order, none left out, none twice"
                known.append(bytes(entry.payload))

    def join(self) -> None:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), f"waits for {len(self._group)} ledgers"


def payload_of(ledger_id: int, number: int) -> bytes:
    return b"%d of ledger %d" % (number, ledger_id)


def append_a_round(writers: list[zbk.LedgerWriter], number: int) -> None:
    futures: list[Future[int]] = [
        writer.append_async(payload_of(writer.ledger_id, number)) for writer in writers
    ]
    for future in futures:
        future.result(WAIT_S)


def follow_while_bookies_die(cluster: LocalCluster, client: zbk.Client, ledger_count: int) -> None:
    """Append in rounds; kill each bookie in turn, and start it again; then close all ledgers."""
    writers = client.create_ledgers(ledger_count)
    ledger_ids = [writer.ledger_id for writer in writers]
    with zbk.connect(cluster.metadata_uri) as reading:
        follower = Follower(reading, ledger_ids)
        for number in range(APPEND_COUNT):
            if number and number % 3 == 0:
                killed = number // 3 - 1
                cluster.kill(killed)
                append_a_round(writers, number)
                cluster.restart(killed)
            else:
                append_a_round(writers, number)
        client.close_all(writers)
        follower.join()

    assert follower.errors == {}
    assert sorted(follower.ended) == ledger_ids
    expected = {one: [payload_of(one, n) for n in range(APPEND_COUNT)] for one in ledger_ids}
    assert dict(follower.payloads) == expected


def test_all_entries_of_many_ledgers_come_though_each_bookie_is_killed_once(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    follow_while_bookies_die(cluster, client, 60)


@pytest.mark.soak
def test_all_entries_of_a_thousand_ledgers_come_though_each_bookie_is_killed_once(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    follow_while_bookies_die(cluster, client, 1_000)


def test_a_deleted_ledger_ends_with_an_error_and_the_others_go_on(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    writers = client.create_ledgers(20)
    gone, *others = writers
    with zbk.connect(cluster.metadata_uri) as reading:
        follower = Follower(reading, [writer.ledger_id for writer in writers])
        append_a_round(writers, 0)
        gone.close()
        client.delete_ledger(gone.ledger_id)
        append_a_round(others, 1)
        client.close_all(others)
        follower.join()

    # it may have seen the end of the ledger before that was deleted
    assert {type(error) for error in follower.errors.values()} <= {zbk.NoSuchLedgerError}
    assert follower.errors.keys() <= {gone.ledger_id}
    for writer in others:
        assert len(follower.payloads[writer.ledger_id]) == 2


def test_tails_of_idle_ledgers_wait_without_threads_and_hear_of_the_next_entry(
    cluster: LocalCluster, client: zbk.Client
) -> None:
    """Longer than a request of a session waits: it is renewed, and no watch is lost."""
    writers = client.create_ledgers(50)
    with zbk.connect(cluster.metadata_uri) as reading, reading.tail_group() as group:
        for writer in writers[:10]:
            group.add(reading.open_ledger(writer.ledger_id))
        with pytest.raises(zbk.RequestTimeoutError):
            group.next_item(timeout=1)
        threads = NewThreads()
        for writer in writers[10:]:
            group.add(reading.open_ledger(writer.ledger_id))
        with pytest.raises(zbk.RequestTimeoutError):
            group.next_item(timeout=7)
        assert len(threads.names()) <= 8, "those that read metadata"

        append_a_round(writers, 0)
        started_s = monotonic_s()
        seen: set[int] = set()
        while len(seen) < len(writers):
            item = group.next_item(timeout=WAIT_S)
            assert item is not None
            seen.add(item.reader.ledger_id)

    assert monotonic_s() - started_s < WAIT_S
