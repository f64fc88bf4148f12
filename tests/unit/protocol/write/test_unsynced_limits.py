"""How much a VD writer keeps because it is not durable: of its own, and with others."""

import msgspec
import pytest

from tests.support.writer_cluster import WriterCluster
from tests.support.writer_limits import LIMITS
from zbk.errors import CannotAdvanceError, RequestTimeoutError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.core_parts import VolatileTerms
from zbk.protocol.write.events import CloseLedger, SendAdd, SendSync
from zbk.protocol.write.unsynced_total import UnsyncedTotal

ENTRY_SIZE = 100


def cluster_up(
    total: UnsyncedTotal | None = None, spare_count: int = 0, **limits: int
) -> WriterCluster:
    limits = {"unsynced_size_max": 1 << 20, "unsynced_batch_count_max": 1 << 20} | limits
    cluster = WriterCluster(
        Quorum(3, 3, 2),
        LedgerType.VD_JOURNAL,
        spare_count,
        limits=msgspec.structs.replace(LIMITS, **limits),
        volatile=None if total is None else VolatileTerms(total.parts[0]),
    )
    for slot in range(3):
        cluster.connect(slot)
    return cluster


def append(cluster: WriterCluster, count: int) -> None:
    """Append entries one by one; the bookies take them, and do not sync before ``sync``."""
    for _ in range(count):
        cluster.append([ENTRY_SIZE])
        for slot, bookie in enumerate(cluster.bookies):
            while any(isinstance(one, SendAdd) for one in bookie.requests):
                bookie.requests.sort(key=lambda one: isinstance(one, SendSync))
                cluster.serve(slot)
                cluster.answer(slot, 0)


def sync(cluster: WriterCluster) -> None:
    """The bookies do all that they were asked for, and what comes of that."""
    while any(bookie.requests for bookie in cluster.bookies):
        for slot in range(3):
            cluster.serve(slot)
            cluster.answer(slot, 0)


def has_asked(cluster: WriterCluster) -> bool:
    return any(isinstance(one, SendSync) for one in cluster.bookies[0].requests)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_writer_syncs_at_half_of_the_limit_and_stops_at_all_of_it(*, is_shared: bool) -> None:
    size_max = 2_000
    total = UnsyncedTotal(size_max) if is_shared else None
    cluster = cluster_up(total, **({} if is_shared else {"unsynced_size_max": size_max}))
    while cluster.core.path.unsynced_size * 2 < size_max:
        assert not has_asked(cluster)
        append(cluster, 1)
    assert has_asked(cluster)

    append(cluster, 40)

    path = cluster.core.path
    assert path.waiting, "appends wait"
    assert size_max <= path.unsynced_size <= size_max + LIMITS.batch_size_max
    sync(cluster)
    assert not path.waiting
    assert path.lac > 0


def test_writers_that_keep_nothing_go_on_while_others_keep_too_much() -> None:
    total = UnsyncedTotal(2_000, part_count=2)
    total.parts[1].size = 5_000  # of another writer, whose bookies do not sync
    cluster = cluster_up(total)

    append(cluster, 1)

    assert cluster.core.path.last_acked_id == 0
    assert has_asked(cluster), "it makes room"
    append(cluster, 1)
    assert cluster.core.path.waiting, "it keeps something: more has to wait"
    sync(cluster)
    assert cluster.core.path.last_acked_id == 1


def test_what_a_writer_keeps_is_counted_until_it_is_durable_or_the_writer_ends() -> None:
    total = UnsyncedTotal(1 << 20)
    synced, dropped = cluster_up(total), cluster_up(total)
    for cluster in (synced, dropped):
        append(cluster, 3)
    assert total.size == synced.core.path.unsynced_size + dropped.core.path.unsynced_size > 0

    synced.sync()
    sync(synced)
    dropped.recover()
    dropped.append([1])
    dropped.serve(0)
    dropped.answer(0, 0)

    assert dropped.core.error is not None
    assert total.size == 0


def test_a_pd_writer_counts_nothing() -> None:
    total = UnsyncedTotal(1)
    cluster = WriterCluster(Quorum(3, 3, 2), volatile=VolatileTerms(total.parts[0]))
    for slot in range(3):
        cluster.connect(slot)

    append(cluster, 3)

    assert cluster.core.path.last_acked_id == 2
    assert total.size == 0


SLOW = RequestTimeoutError("sync", 3)


def wait_without_syncs(cluster: WriterCluster, *slots: int) -> None:
    """Time passes; the bookies of these slots cannot sync, and the others answer."""
    cluster.wait(100)
    for slot, bookie in enumerate(cluster.bookies):
        while bookie.requests or bookie.answers:
            cluster.serve(slot, SLOW if slot in slots else None)
            cluster.answer(slot, 0)


def test_bookies_that_repair_a_full_writer_have_time_to_sync() -> None:
    """The change of the ensemble comes in the last round before the writer would end."""
    cluster = cluster_up(unsynced_batch_count_max=4, spare_count=2)
    append(cluster, 5)
    assert cluster.core.path.waiting
    while not (cluster.core._unsynced._is_last_sync and cluster.core._syncs.has_round):
        wait_without_syncs(cluster, 1, 2)
        cluster.wait(100)
    for slot in (1, 2):
        cluster.disconnect(slot)
    for _ in range(2):
        cluster.wait(100)
        cluster.serve_metadata()
    assert cluster.core.slots.bookies == ("b0", "spare0", "spare1")
    assert cluster.core.error is None

    cluster.wait(LIMITS.quorum_grace_ms // 2)
    assert cluster.core.error is None, "they are being connected"
    for slot in (1, 2):
        cluster.connect(slot)
    sync(cluster)

    assert cluster.core.path.last_acked_id == 4
    assert cluster.core.path.lac >= 3


def test_a_full_writer_whose_bookies_do_not_sync_ends_after_a_grace_and_a_round() -> None:
    cluster = cluster_up(unsynced_batch_count_max=4)
    append(cluster, 5)

    for _ in range(40):
        wait_without_syncs(cluster, 1, 2)

    assert isinstance(cluster.core.error, CannotAdvanceError)


def stuck_at_the_shared_limit() -> WriterCluster:
    """Return a writer with an append that waits; others keep much, and two bookies do not sync."""
    total = UnsyncedTotal(2_000, part_count=2)
    total.parts[1].size = 5_000
    cluster = cluster_up(total)
    append(cluster, 2)
    assert cluster.core.path.last_acked_id == 0
    assert cluster.core.path.waiting
    return cluster


def test_a_writer_that_is_stuck_at_the_shared_limit_says_so() -> None:
    cluster = stuck_at_the_shared_limit()

    while cluster.now_ms < LIMITS.quorum_grace_ms:
        assert cluster.core.error is None
        wait_without_syncs(cluster, 1, 2)
    for _ in range(20):
        wait_without_syncs(cluster, 1, 2)

    assert isinstance(cluster.core.error, CannotAdvanceError)
    assert not cluster.appends, "what waited has its answer"


def test_a_writer_whose_lac_moves_at_the_shared_limit_goes_on() -> None:
    total = UnsyncedTotal(2_000, part_count=2)
    cluster = cluster_up(total)
    append(cluster, 4)
    total.parts[1].size = 5_000
    append(cluster, 1)

    for entry_id in range(3):  # synced one by one, each in most of the grace
        for _ in range(8):
            wait_without_syncs(cluster, 0, 1, 2)
        for slot, bookie in enumerate(cluster.bookies):
            bookie.durable.add(entry_id)
            cluster.core.path.synced(slot, 1, entry_id)
        assert cluster.core.path.waiting

    assert cluster.core.path.lac == 2
    assert cluster.now_ms > 2 * LIMITS.quorum_grace_ms
    assert cluster.core.error is None
    for _ in range(30):
        wait_without_syncs(cluster, 0, 1, 2)
    assert isinstance(cluster.core.error, CannotAdvanceError)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_close_that_accepts_a_loss_ends_where_no_room_is_made(*, is_shared: bool) -> None:
    if is_shared:
        cluster = stuck_at_the_shared_limit()
    else:
        cluster = cluster_up(unsynced_batch_count_max=1)
        append(cluster, 2)
    for slot in (1, 2):
        cluster.disconnect(slot)

    cluster.close(accepts_loss=True)
    for _ in range(30):
        wait_without_syncs(cluster)
        cluster.serve_metadata()

    assert isinstance(cluster.end, CloseLedger)
    assert cluster.end.last_entry_id == -1
    assert not cluster.appends
    assert cluster.now_ms <= 3 * LIMITS.quorum_grace_ms
