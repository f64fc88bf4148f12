"""Ensemble changes as whole stories: a writer and its bookies.

Those of VD ledgers are in ``test_volatile_ensemble``.
"""

import msgspec
import pytest

from tests.support.writer_limits import LIMITS
from tests.support.writer_metadata import Store
from tests.support.writer_stories import ack, cluster_up, fragments, sent_ids
from zbk.errors import BookieUnavailableError, MetadataUnavailableError
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.ensemble_changes import EnsembleChanges
from zbk.protocol.write.events import (
    BookiesChanged,
    EnsembleChanged,
    EnsembleChangeFailed,
    EnsembleChangeTurn,
)

LOST = BookieUnavailableError("b", "no answer")


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
