"""A VD writer that was asked once to sync by itself: after a time, bytes or entries."""

import pytest

from tests.support.writer_cluster import WriterCluster
from zbk.errors import BusyError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.core_parts import VolatileTerms
from zbk.protocol.write.events import SendSync
from zbk.protocol.write.sync_policy import SyncEvery


def cluster_up(every: SyncEvery) -> WriterCluster:
    cluster = WriterCluster(
        Quorum(3, 3, 2), LedgerType.VD_JOURNAL, volatile=VolatileTerms(sync_every=every)
    )
    for slot in range(3):
        cluster.connect(slot)
    return cluster


def append(cluster: WriterCluster, size: int) -> None:
    cluster.append([size])
    serve(cluster, is_syncing=False)


def serve(cluster: WriterCluster, *, is_syncing: bool = True) -> None:
    """The bookies do what they were asked for; if they are not to sync, up to the first sync."""
    for slot in (0, 1, 2, 0, 1, 2):
        bookie = cluster.bookies[slot]
        while bookie.requests and (is_syncing or not isinstance(bookie.requests[0], SendSync)):
            cluster.serve(slot)
            cluster.answer(slot, 0)


def sync_count(cluster: WriterCluster) -> int:
    return sum(isinstance(one, SendSync) for one in cluster.bookies[0].requests)


@pytest.mark.parametrize(
    ("every", "sizes"),
    [
        (SyncEvery(every_count=3), [1, 1, 1]),
        (SyncEvery(every_size=200), [99, 100, 1]),
        (SyncEvery(every_size=1_000, every_count=2), [1, 1]),
    ],
    ids=["entries", "bytes", "whichever comes first"],
)
def test_it_syncs_with_the_entry_that_is_one_too_many(every: SyncEvery, sizes: list[int]) -> None:
    cluster = cluster_up(every)
    for _round in range(3):
        for size in sizes[:-1]:
            append(cluster, size)
        assert sync_count(cluster) == 0

        append(cluster, sizes[-1])

        assert sync_count(cluster) == 1
        serve(cluster)
        assert cluster.core.path.lac == cluster.core.path.last_acked_id


def test_after_the_time_it_syncs_though_nothing_is_appended() -> None:
    cluster = cluster_up(SyncEvery(every_ms=50))
    cluster.wait(10)
    append(cluster, 1)
    assert cluster.core.next_tick_ms == 60

    cluster.wait(49)
    assert sync_count(cluster) == 0
    cluster.wait(1)
    assert sync_count(cluster) == 1
    serve(cluster)

    assert cluster.core.path.lac == 0
    cluster.wait(1_000)
    assert sync_count(cluster) == 0, "nothing is un-synced"


def test_a_busy_writer_does_not_wait_for_a_tick() -> None:
    cluster = cluster_up(SyncEvery(every_ms=50))
    append(cluster, 1)
    cluster.now_ms += 50

    append(cluster, 1)

    assert sync_count(cluster) == 1


def test_a_policy_that_its_bookies_do_not_follow_is_not_tried_all_the_time() -> None:
    cluster = cluster_up(SyncEvery(every_count=1))
    append(cluster, 1)
    tries = 0
    for _ in range(30):
        tries += sync_count(cluster)
        for slot in range(3):
            while cluster.bookies[slot].requests:
                cluster.serve(slot, BusyError("no sync"))
                cluster.answer(slot, 0)
        cluster.wait(100)

    assert 2 <= tries <= 5
    assert cluster.core.error is None
    serve(cluster)
    cluster.wait(1_000)
    serve(cluster)
    assert cluster.core.path.lac == 0
