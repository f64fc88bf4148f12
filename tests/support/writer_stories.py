"""Writers whose bookies are up, for stories, and what a story asks about them."""

import msgspec

from tests.support.writer_cluster import WriterCluster
from tests.support.writer_limits import LIMITS
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import SendAdd


def cluster_up(quorum: Quorum, spare_count: int = 1) -> WriterCluster:
    """Return the cluster of a PD writer; all its bookies are up, and spares are free."""
    limits = msgspec.structs.replace(LIMITS, window_count=16)
    cluster = WriterCluster(quorum, LedgerType.PD_JOURNAL, spare_count, limits)
    for slot in range(quorum.ensemble_size):
        cluster.connect(slot)
    return cluster


def ack(cluster: WriterCluster, *slots: int) -> None:
    """Deliver everything that waits for the bookies of these slots, and their answers."""
    for slot in slots:
        bookie = cluster.bookies[slot]
        while bookie.requests or bookie.answers:
            cluster.serve(slot)
            cluster.answer(slot, 0)


def sent_ids(cluster: WriterCluster, slot: int) -> list[list[int]]:
    """Return the entries of each batch that waits for the bookie of a slot."""
    requests = cluster.bookies[slot].requests
    return [list(request.batch.entry_ids) for request in requests if isinstance(request, SendAdd)]


def fragments(cluster: WriterCluster) -> list[tuple[int, tuple[str, ...]]]:
    """Return the first entry and the bookies of each fragment, as the metadata have them."""
    return [(f.first_entry_id, f.bookies) for f in cluster.metadata.ledger.fragments]


def vd_cluster(*, spare_count: int = 1, quorum: Quorum | None = None) -> WriterCluster:
    """Return the cluster of a VD writer; all its bookies are up, and spares are free."""
    cluster = WriterCluster(quorum or Quorum(3, 3, 2), LedgerType.VD_JOURNAL, spare_count)
    for slot in range(cluster.quorum.ensemble_size):
        cluster.connect(slot)
    return cluster
