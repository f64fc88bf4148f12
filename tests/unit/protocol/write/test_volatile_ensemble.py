"""Ensemble changes and syncs of VD ledgers as whole stories: what is not durable moves along."""

import msgspec

from tests.support.writer_cluster import WriterCluster
from tests.support.writer_limits import LIMITS
from tests.support.writer_metadata import Store
from tests.support.writer_stories import ack, fragments, sent_ids, vd_cluster
from zbk.errors import CannotAdvanceError, MetadataUnavailableError, NotDurableError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.ensemble_keeper import STAYING_WAIT_MS
from zbk.protocol.write.events import CloseFailed


def test_sync_does_not_count_what_bookies_lost_with_their_page_cache() -> None:
    """B24: two of the bookies lose power before they sync; what they are sent again counts."""
    cluster = WriterCluster(Quorum(3, 3, 2), LedgerType.VD_JOURNAL)
    for slot in range(3):
        cluster.connect(slot)
    cluster.append([1])
    ack(cluster, 0, 1, 2)
    assert cluster.core.path.last_acked_id == 0
    for slot in (0, 1):
        cluster.bookies[slot].crash(loses_power=True)
        cluster.connect(slot)
    cluster.disconnect(2)
    cluster.serve_metadata()  # there is no replacement

    cluster.sync()
    assert sent_ids(cluster, 0) == sent_ids(cluster, 1) == [[0]]
    ack(cluster, 0)
    assert cluster.core.path.lac == -1, "one bookie is no ack quorum"
    ack(cluster, 1)
    cluster.serve_metadata()  # still none

    assert cluster.core.path.lac == 0
    assert cluster.pool["b0"].durable == cluster.pool["b1"].durable == {0}
    ack(cluster, 0, 1)  # they are told the LAC
    assert not cluster.syncs


def test_a_sync_ends_without_success_where_no_ack_quorum_can_sync() -> None:
    cluster = WriterCluster(Quorum(3, 3, 2), LedgerType.VD_JOURNAL)
    for slot in range(3):
        cluster.connect(slot)
    cluster.append([1])
    ack(cluster, 0, 1, 2)
    cluster.bookies[0].crash(loses_power=True)
    cluster.connect(0)
    for slot in (1, 2):
        cluster.disconnect(slot)
        cluster.serve_metadata()  # there is no replacement

    cluster.sync()
    ack(cluster, 0)
    cluster.wait(LIMITS.quorum_grace_ms)
    cluster.serve_metadata()
    cluster.wait(0)

    assert cluster.core.path.lac == -1
    assert f"sync: {CannotAdvanceError.__name__}" in cluster.seen
    cluster.close()
    for _ in range(8):
        ack(cluster, 0)
        cluster.wait(LIMITS.quorum_grace_ms)
        cluster.serve_metadata()
    assert isinstance(cluster.end, CloseFailed)
    assert isinstance(cluster.end.error, NotDurableError)


def test_a_vd_ledger_changes_its_ensemble_at_lac_plus_1() -> None:
    """I13, I22: what is acknowledged and not durable moves to the new bookie."""
    cluster = vd_cluster()
    cluster.append([1])
    cluster.sync()
    ack(cluster, 0, 1, 2)
    ack(cluster, 0, 1, 2)
    cluster.append([2])
    ack(cluster, 0, 2)
    assert (cluster.core.path.last_acked_id, cluster.core.path.lac) == (1, 0)

    cluster.disconnect(2)
    cluster.wait(STAYING_WAIT_MS)
    cluster.append([3])
    assert sent_ids(cluster, 0) == [[2]], "appends go on"
    ack(cluster, 0, 1, 1)
    assert cluster.core.path.last_acked_id == 1, "nothing is acknowledged meanwhile"
    cluster.serve_metadata()

    assert fragments(cluster)[1:] == [(1, ("b0", "b1", "spare0"))]
    assert "a new bookie catches up" in cluster.seen
    assert cluster.pool["spare0"].durable == {1}, "it caught up before it joined"
    assert cluster.core.path.last_acked_id == 2
    cluster.connect(2)
    cluster.sync()
    cluster.heal()
    assert cluster.core.path.lac == 2


def test_what_the_bookies_that_stay_have_is_sent_after_the_change() -> None:
    cluster = vd_cluster()
    cluster.append([1])
    ack(cluster, 0, 1)

    cluster.disconnect(2)
    cluster.serve_metadata()

    assert fragments(cluster) == [(0, ("b0", "b1", "spare0"))]
    assert cluster.pool["spare0"].held == set(), "an ack quorum has it without the new bookie"
    cluster.connect(2)
    assert sent_ids(cluster, 2) == [[0]]


def test_a_change_waits_for_what_the_bookies_that_stay_will_answer() -> None:
    cluster = vd_cluster()
    cluster.append([1])
    ack(cluster, 0, 2)

    cluster.disconnect(2)
    cluster.wait(STAYING_WAIT_MS - 1)
    assert not cluster.metadata.asked, "an answer of b1 is on its way"
    cluster.append([1])
    ack(cluster, 0, 1)
    assert cluster.metadata.asked, "what is acknowledged is at b0 and b1"
    assert cluster.core.path.last_acked_id == 0
    cluster.serve_metadata()

    assert "a new bookie catches up" not in cluster.seen
    assert fragments(cluster) == [(0, ("b0", "b1", "spare0"))]


def test_a_new_bookie_receives_all_up_to_the_last_entry_that_it_needs() -> None:
    """Its cursor, which shows that it has that one, does not pass a hole."""
    cluster = vd_cluster()
    cluster.append([1])
    ack(cluster, 0, 1)
    cluster.append([1])
    ack(cluster, 0, 2, 2)
    assert cluster.core.path.last_acked_id == 1, "b0 and b1 have the first, b0 and b2 the second"

    cluster.disconnect(2)
    cluster.wait(STAYING_WAIT_MS)
    cluster.serve_metadata()

    assert fragments(cluster) == [(0, ("b0", "b1", "spare0"))]
    assert cluster.pool["spare0"].durable == {0, 1}


def test_a_change_does_not_wait_for_a_bookie_that_is_down() -> None:
    cluster = vd_cluster(quorum=Quorum(4, 4, 3), spare_count=2)
    cluster.append([1])
    ack(cluster, 0, 1, 2)

    cluster.disconnect(3)
    cluster.serve_metadata()
    assert cluster.pool["spare0"].held == set(), "three that stay have it"
    cluster.disconnect(0)

    assert cluster.metadata.asked, "the new bookie is not connected"


def test_a_fragment_without_a_durable_entry_is_replaced_and_its_entries_move() -> None:
    cluster = vd_cluster(spare_count=2)
    cluster.append([1])
    ack(cluster, 0, 2)

    cluster.disconnect(2)
    cluster.wait(STAYING_WAIT_MS)
    cluster.serve_metadata()
    cluster.disconnect(1)
    cluster.serve_metadata()

    assert fragments(cluster) == [(0, ("b0", "spare1", "spare0"))]
    assert cluster.pool["spare0"].durable == cluster.pool["spare1"].durable == {0}


def test_an_ack_quorum_that_is_gone_is_replaced_under_a_vd_writer() -> None:
    cluster = vd_cluster(spare_count=2)
    cluster.append([1])
    ack(cluster, 0, 1, 2)

    cluster.disconnect(1)
    cluster.disconnect(2)
    cluster.append([1])
    cluster.serve_metadata()
    cluster.serve_metadata()
    cluster.sync()
    cluster.heal()

    assert cluster.core.error is None
    assert cluster.core.path.lac == 1
    assert cluster.core.slots.bookies == ("b0", "spare0", "spare1")


def test_what_a_bookie_that_is_being_replaced_has_synced_does_not_count() -> None:
    """Nothing counts as durable between the decision and the confirmation of the store."""
    cluster = vd_cluster()
    cluster.append([1])
    cluster.sync()
    for slot in (0, 1):
        cluster.serve(slot)
        cluster.answer(slot, 0)
    for slot in (2, 2, 0):  # an add and a sync; a sync
        cluster.serve(slot)
    late = cluster.bookies[2].answers[1]
    cluster.disconnect(2)
    cluster.connect(2)

    cluster.handle(late)
    cluster.answer(0, 0)
    assert cluster.core.path.lac == -1
    cluster.serve_metadata()
    cluster.handle(late)

    assert cluster.core.path.lac == -1, "b0 alone has synced it, as far as is known"
    cluster.connect(2)
    cluster.heal()
    assert cluster.core.path.lac == 0


def test_a_fragment_begins_after_what_others_have_reported() -> None:
    cluster = vd_cluster()
    cluster.append([1])
    for slot in range(3):
        cluster.serve(slot)
    assert cluster.sync_from_outside() == 0
    assert cluster.core.path.last_acked_id == -1, "the writer has heard nothing"

    cluster.disconnect(2)
    cluster.append([1])
    cluster.serve_metadata()

    assert fragments(cluster)[1:] == [(1, ("b0", "b1", "spare0"))]
    assert cluster.metadata.ledger.length_before is msgspec.UNSET
    assert (cluster.core.path.last_acked_id, cluster.core.path.lac) == (0, 0)
    assert cluster.told_id == 0, "it is acknowledged by that"


def test_the_first_entry_is_decided_again_with_each_try_at_the_store() -> None:
    cluster = vd_cluster()
    cluster.append([1])
    for slot in range(3):
        cluster.serve(slot)
    cluster.disconnect(2)

    cluster.serve_metadata(Store.LOSES_REQUEST)
    assert cluster.sync_from_outside() == 0
    cluster.wait(LIMITS.ensemble_retry_ms)
    cluster.serve_metadata(Store.LOSES_REPLY)
    cluster.wait(LIMITS.ensemble_retry_ms)
    cluster.serve_metadata()

    assert fragments(cluster)[1:] == [(1, ("b0", "b1", "spare0"))]
    assert cluster.core.path.lac == 0


def test_a_bookie_that_cannot_catch_up_does_not_join_and_another_one_is_tried() -> None:
    cluster = vd_cluster(spare_count=2)
    cluster.append([1])
    ack(cluster, 0, 2)
    cluster.pool["spare0"].catches_up = False

    cluster.disconnect(2)
    cluster.wait(STAYING_WAIT_MS)
    cluster.serve_metadata()
    assert "change: NotEnoughBookiesError" in cluster.seen
    assert fragments(cluster) == [(0, ("b0", "b1", "b2"))]
    cluster.append([1])
    for _ in range(2):
        cluster.serve(1)
    ack(cluster, 0)
    cluster.answer(1, 1)
    assert cluster.core.path.last_acked_id == 1, "the writer goes on meanwhile"
    cluster.wait(LIMITS.ensemble_retry_ms)
    cluster.wait(STAYING_WAIT_MS)
    cluster.serve_metadata()

    assert fragments(cluster) == [(0, ("b0", "b1", "spare1"))]
    assert cluster.pool["spare1"].durable == {0}


def test_a_sync_that_waits_goes_on_with_the_new_bookie() -> None:
    cluster = vd_cluster(quorum=Quorum(3, 3, 3))
    cluster.append([1])
    ack(cluster, 0, 1, 2)
    cluster.sync()
    ack(cluster, 0, 1)

    cluster.disconnect(2)
    cluster.serve_metadata()
    cluster.connect(2)
    ack(cluster, 0, 1, 2)
    ack(cluster, 0, 1, 2)

    assert not cluster.syncs
    assert cluster.last_sync_id == 0


def test_a_writer_that_ends_during_a_change_leaves_the_end_to_a_recovery() -> None:
    """The ensemble is not known, so nothing more can be found durable; no call hangs."""
    cluster = vd_cluster()
    cluster.append([1])
    ack(cluster, 0, 1)
    cluster.disconnect(2)
    cluster.sync()
    for _ in range(20):
        cluster.serve_metadata(Store.LOSES_REQUEST)
        cluster.wait(LIMITS.ensemble_retry_ms)
    assert isinstance(cluster.core.error, MetadataUnavailableError)

    cluster.close()
    for _ in range(40):
        ack(cluster, 0, 1)
        cluster.wait(LIMITS.ensemble_retry_ms)

    assert isinstance(cluster.end, CloseFailed)
    assert not cluster.syncs


def test_a_vd_writer_without_a_replacement_goes_on_with_the_others() -> None:
    cluster = vd_cluster(spare_count=0)
    cluster.append([1])
    cluster.disconnect(2)
    ack(cluster, 0, 1)
    ack(cluster, 0, 1)
    cluster.serve_metadata()
    assert "change: NotEnoughBookiesError" in cluster.seen

    cluster.append([1])
    ack(cluster, 0, 1)

    assert cluster.core.path.last_acked_id == 1
    assert len(cluster.metadata.ledger.fragments) == 1
