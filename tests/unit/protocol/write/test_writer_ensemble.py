"""Ensemble changes, and the end of a ledger, as whole stories: a writer and its bookies."""

import msgspec
import pytest

from tests.support.writer_cluster import WriterCluster
from tests.support.writer_limits import LIMITS
from tests.support.writer_metadata import Store
from zbk.errors import (
    BookieUnavailableError,
    CannotAdvanceError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataUnavailableError,
    NotDurableError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.ensemble_changes import EnsembleChanges
from zbk.protocol.write.ensemble_keeper import STAYING_WAIT_MS
from zbk.protocol.write.events import (
    BookiesChanged,
    CloseFailed,
    CloseLedger,
    EnsembleChanged,
    EnsembleChangeFailed,
    EnsembleChangeTurn,
    SendAdd,
)

LOST = BookieUnavailableError("b", "no answer")


def cluster_up(quorum: Quorum, spare_count: int = 1) -> WriterCluster:
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
    return [(f.first_entry_id, f.bookies) for f in cluster.metadata.ledger.fragments]


def test_what_became_of_one_change_says_nothing_of_the_next() -> None:
    changes = EnsembleChanges(msgspec.structs.replace(LIMITS, metadata_grace_ms=1_000))
    retry_ms = LIMITS.ensemble_retry_ms
    unknown = MetadataUnavailableError("memory://", "no answer")

    changes.begin({0: "b0"}, 0, 0, is_urgent=True, length_before=0, unsynced={})
    changes.turn(0, has_come=False)
    changes.turn(100, has_come=True)
    changes.made([0], 100)
    changes.begin({1: "b1"}, 5, 200, is_urgent=True, length_before=0, unsynced={})
    changes.turn(200, has_come=False)
    changes.turn(9_000, has_come=True)
    assert changes.again(9_999) is None, "its time begins when its turn has come"

    changes.turn(9_999, has_come=False)
    changes.declined(9_999)
    last = changes.begin({1: "b1"}, 5, 20_000, is_urgent=True, length_before=0, unsynced={})
    changes.doubted(unknown, 20_000)
    assert changes.again(20_000 + retry_ms) == last, "it waits for no turn"


@pytest.mark.parametrize("store", [Store.ANSWERS, Store.LOSES_REPLY, Store.LOSES_REQUEST])
def test_nothing_is_acknowledged_while_the_ensemble_is_changed(store: Store) -> None:
    """B4: entries that become complete meanwhile count only with acks of the new ensemble."""
    cluster = cluster_up(Quorum(4, 2, 2))
    for _entry in range(6):  # e0 is on slots 0 and 1, e1 on 1 and 2, e2 on 2 and 3, ...
        cluster.append([1])
    ack(cluster, 1, 3)
    cluster.serve(0)  # slot 0 has e0; its ack is held back
    cluster.serve(2)
    cluster.answer(2, 0)  # e1
    cluster.serve(2)
    cluster.answer(2, 0)  # e2
    assert cluster.core.path.last_acked_id == -1, "e1 and e2 are complete, and wait for e0"

    cluster.serve(2, LOST)  # e5 fails at slot 2
    cluster.answer(2, 0)
    cluster.answer(0, 0)  # the ack of e0 comes while the change is on its way
    assert cluster.core.path.last_acked_id == -1

    cluster.serve_metadata(store)
    if store is not Store.ANSWERS:
        assert cluster.core.path.last_acked_id == -1, "nobody knows what the metadata say"
        cluster.wait(LIMITS.ensemble_retry_ms)
        cluster.serve_metadata()

    assert cluster.core.slots.bookies == ("b0", "b1", "spare0", "b3")
    assert fragments(cluster) == [(0, ("b0", "b1", "spare0", "b3"))]
    assert cluster.core.path.last_acked_id == 0, "e1 and e2 lack the ack of the new bookie"
    cluster.connect(2)
    assert sent_ids(cluster, 2) == [[1], [2], [5]]
    ack(cluster, 2, 0)
    assert cluster.core.path.last_acked_id == 5
    for entry_id in range(6):
        named = cluster.metadata.names(entry_id)
        assert all(entry_id in cluster.pool[bookie].durable for bookie in named)


def test_the_new_fragment_starts_behind_the_last_acknowledged_entry() -> None:
    """I13, M17: neither at the last entry pushed, nor where the ack quorum is incomplete."""
    cluster = cluster_up(Quorum(3, 3, 2))
    for _entry in range(4):
        cluster.append([1])
    for slot in (0, 1):
        for _entry in range(2):
            cluster.serve(slot)
            cluster.answer(slot, 0)

    cluster.disconnect(2)
    cluster.serve_metadata()

    assert fragments(cluster) == [(0, ("b0", "b1", "b2")), (2, ("b0", "b1", "spare0"))]


def test_an_answer_of_the_replaced_bookie_is_not_taken_for_the_new_ones() -> None:
    """M18, M33: the new bookie has the same slot, and is sent the same entries."""
    cluster = cluster_up(Quorum(3, 3, 3))
    cluster.append([1])
    ack(cluster, 0, 1)
    cluster.serve(2)  # b2 has it, and its answer is on its way
    old = cluster.pool["b2"]
    answer = old.answers.pop()
    cluster.disconnect(2)
    cluster.serve_metadata()
    cluster.connect(2)

    cluster.handle(answer)

    assert cluster.core.path.last_acked_id == -1
    ack(cluster, 2)
    assert cluster.core.path.last_acked_id == 0


def test_a_failure_after_the_ack_quorum_replaces_the_bookie_as_well() -> None:
    """F24: entries that are acknowledged stay in their fragment; later ones have all copies."""
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    ack(cluster, 0, 1)
    assert cluster.core.path.last_acked_id == 0

    cluster.serve(2, LOST)
    cluster.answer(2, 0)
    cluster.serve_metadata()
    cluster.connect(2)
    cluster.append([1])
    ack(cluster, 0, 1, 2)

    assert fragments(cluster) == [(0, ("b0", "b1", "b2")), (1, ("b0", "b1", "spare0"))]
    assert cluster.pool["spare0"].durable == {1}


def test_what_others_changed_in_old_fragments_stays() -> None:
    """B14: the change is decided on what is in the metadata now, not on what the writer knows."""
    cluster = cluster_up(Quorum(3, 3, 2), spare_count=3)
    for change in range(2):
        cluster.append([1])
        ack(cluster, 0, 1, 2)
        cluster.disconnect(0)
        if change == 1:
            cluster.repair_old_fragment()  # while the writer's change is on its way
        cluster.serve_metadata()
        cluster.connect(0)

    assert fragments(cluster) == [
        (0, ("spare0", "b1", "b2")),
        (1, ("spare0", "b1", "b2")),
        (2, ("spare1", "b1", "b2")),
    ]


def test_a_bookie_that_failed_lately_is_not_taken_again_while_others_do() -> None:
    """B20: a pair of bad bookies does not take turns in one slot."""
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    cluster.disconnect(2)
    cluster.serve_metadata()
    cluster.disconnect(2)  # the new one fails as well: b2 would be free again

    cluster.serve_metadata()

    assert cluster.core.slots.bookies == ("b0", "b1", "spare0")
    ack(cluster, 0, 1)
    assert cluster.core.path.last_acked_id == 0


def test_without_an_ack_quorum_any_bookie_is_taken() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    cluster.disconnect(2)
    cluster.serve_metadata()
    cluster.connect(2)
    cluster.disconnect(1)
    cluster.serve_metadata()  # b2 failed lately, and two are enough: declined
    assert cluster.core.slots.bookies == ("b0", "b1", "spare0")

    cluster.disconnect(0)
    cluster.serve_metadata()

    assert "b2" in cluster.core.slots.bookies
    assert "urgent" in cluster.seen


def test_a_bookie_that_comes_is_put_in_for_one_that_is_missing() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.set_writable("spare0", is_writable=False)
    cluster.disconnect(2)
    cluster.serve_metadata()
    assert cluster.core.slots.bookies == ("b0", "b1", "b2")
    assert not cluster.metadata.asked

    cluster.set_writable("spare0", is_writable=True)
    cluster.serve_metadata()

    assert cluster.core.slots.bookies == ("b0", "b1", "spare0")


def test_a_last_fragment_may_be_empty() -> None:
    """B21: the ensemble is changed behind the last entry, and nothing is written any more."""
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([5])
    ack(cluster, 0, 1, 2)
    cluster.disconnect(1)
    cluster.serve_metadata()

    cluster.close()

    assert isinstance(cluster.end, CloseLedger)
    assert (cluster.end.last_entry_id, cluster.end.length) == (0, 5)
    assert fragments(cluster)[-1][0] == 1


def test_a_ledger_ends_at_the_last_acknowledged_entry() -> None:
    """B22: an append that failed may be in the ledger or not, but never behind a gap."""
    cluster = cluster_up(Quorum(3, 3, 2), spare_count=0)
    cluster.append([5])
    cluster.append([7])
    ack(cluster, 0)
    cluster.serve(1)
    cluster.answer(1, 0)  # the first entry is acknowledged, the second is on one bookie
    for slot in (1, 2):
        cluster.disconnect(slot)
        cluster.serve_metadata()
    for _wait in range(2):
        cluster.wait(LIMITS.quorum_grace_ms)
        cluster.serve_metadata()
    assert "NotEnoughBookiesError" in cluster.seen

    cluster.close()

    assert isinstance(cluster.end, CloseLedger)
    assert (cluster.end.last_entry_id, cluster.end.length) == (0, 5)


def test_close_finishes_what_is_pending_first() -> None:
    """B22: also through a change of the ensemble; appends that come later are refused."""
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    cluster.close()
    cluster.append([1])
    assert "LedgerClosedError" in cluster.seen

    cluster.disconnect(1)
    cluster.disconnect(2)
    ack(cluster, 0)
    assert cluster.end is None
    cluster.serve_metadata()
    cluster.serve_metadata()
    for slot in (1, 2):
        cluster.connect(slot)
        ack(cluster, slot)

    assert isinstance(cluster.end, CloseLedger)
    assert cluster.end.last_entry_id == 0


def test_a_writer_that_finds_its_ledger_in_recovery_leaves_it_alone() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    cluster.disconnect(2)
    cluster.recover()

    cluster.serve_metadata()

    assert isinstance(cluster.core.error, LedgerFencedError)
    assert cluster.core.error.outcome == "unknown"
    cluster.close()
    assert isinstance(cluster.end, CloseFailed)


def test_appends_of_a_ledger_that_somebody_else_has_closed_may_be_in_it() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    cluster.recover()
    ledger = cluster.metadata.ledger.with_closed_by_recovery([], 0, 1)
    cluster.metadata.ledger = cluster.checked_ledger = ledger
    cluster.disconnect(2)

    cluster.serve_metadata()

    assert "LedgerFencedError" in cluster.seen, "the append: its outcome is unknown"
    assert isinstance(cluster.core.error, LedgerClosedError)
    cluster.close()  # at its own end: whether that is the end, the metadata say
    assert isinstance(cluster.end, CloseLedger)


def test_an_answer_to_an_earlier_change_changes_nothing() -> None:
    cluster = cluster_up(Quorum(3, 3, 2), spare_count=2)
    cluster.append([1])
    cluster.disconnect(2)
    cluster.serve_metadata()

    cluster.handle(EnsembleChanged(0, 0, ("b0", "b1", "spare1")))

    assert cluster.core.slots.bookies == ("b0", "b1", "spare0")


def test_the_wait_for_a_turn_at_the_metadata_store_is_no_outage() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    cluster.disconnect(2)
    (change,) = cluster.metadata.asked
    cluster.handle(EnsembleChangeTurn(change.change_id, has_come=False))
    cluster.wait(3 * LIMITS.metadata_grace_ms)
    assert cluster.core.error is None

    cluster.handle(EnsembleChangeTurn(change.change_id, has_come=True))
    cluster.wait(LIMITS.metadata_grace_ms // 2)
    assert cluster.core.error is None, "the grace begins when the store is asked"

    cluster.wait(LIMITS.metadata_grace_ms)
    assert isinstance(cluster.core.error, MetadataUnavailableError)


def test_asking_again_and_again_does_not_put_off_the_end() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.append([1])
    cluster.disconnect(2)
    (change,) = cluster.metadata.asked
    for _try in range(20):
        cluster.handle(EnsembleChangeTurn(change.change_id, has_come=False))
        cluster.handle(EnsembleChangeTurn(change.change_id, has_come=True))
        cluster.metadata.asked.clear()
        cluster.handle(EnsembleChangeFailed(change.change_id, MetadataUnavailableError("m", "-")))
        cluster.wait(LIMITS.metadata_grace_ms // 10)

    assert isinstance(cluster.core.error, MetadataUnavailableError)


def test_news_of_bookies_are_no_reason_to_ask_while_all_are_up() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))

    cluster.handle(BookiesChanged())

    assert not cluster.metadata.asked


def test_everything_that_is_pending_goes_to_the_new_bookie_and_nothing_else() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    for _entry in range(3):
        cluster.append([1])
    for slot in (0, 1):
        cluster.serve(slot)
        cluster.answer(slot, 0)
    cluster.disconnect(2)
    cluster.append([1])
    cluster.serve_metadata()
    assert not cluster.bookies[2].requests, "it is not connected yet"

    cluster.connect(2)

    assert sent_ids(cluster, 2) == [[1], [2], [3]]


# ------------------------------------------------------------------ VD ledgers


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


def vd_cluster(*, spare_count: int = 1, quorum: Quorum | None = None) -> WriterCluster:
    cluster = WriterCluster(quorum or Quorum(3, 3, 2), LedgerType.VD_JOURNAL, spare_count)
    for slot in range(cluster.quorum.ensemble_size):
        cluster.connect(slot)
    return cluster


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
