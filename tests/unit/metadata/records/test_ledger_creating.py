"""LedgerStore creates ledgers under new ids: in races, with lost replies, and many in one step."""

from collections.abc import Sequence

import pytest

from tests.support.ledger_records import Cluster, cluster
from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryStore
from zbk.errors import MetadataConflictError, MetadataUnavailableError
from zbk.metadata.paths import IDGEN
from zbk.metadata.stores.store import Operation
from zbk.metadata.values import IdCounter, encode
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata

__all__ = ["cluster"]


def test_ids_start_at_zero_and_are_never_reused(cluster: Cluster) -> None:
    """B19: an id is given out once, also after its ledger was deleted."""
    first, second = (cluster.ledgers.create(metadata_maker())[0].ledger_id for _ in range(2))
    cluster.ledgers.delete(second)
    third = cluster.others.create(metadata_maker())[0].ledger_id

    assert (first, second, third) == (0, 1, 2)


def test_a_created_ledger_is_read_with_its_version(cluster: Cluster) -> None:
    created, version = cluster.ledgers.create(metadata_maker())

    assert cluster.others.read(created.ledger_id) == (created, version) == (created, 0)


def test_a_create_whose_reply_was_lost_is_found_again(cluster: Cluster) -> None:
    cluster.store.lose_next_reply()

    created, version = cluster.ledgers.create(metadata_maker())

    assert (created.ledger_id, version) == (0, 0)
    assert list(cluster.ledgers.list()) == [0]


def test_a_lost_create_that_another_has_changed_meanwhile_is_still_ours(cluster: Cluster) -> None:
    class RacedStore(MemoryStore):
        """The reply is lost, and an auditor begins to recover the ledger before we look."""

        def multi(self, operations: Sequence[Operation]) -> None:
            super().multi(operations)
            cluster.others.update(0, LedgerMetadata.with_recovery)
            raise MetadataUnavailableError(self.address, "the reply was lost")

    cluster.ledgers._swap.make_parents(cluster.ledgers._path(0))
    store = RacedStore(cluster.tree)

    created, version = cluster.client(store).create(metadata_maker())

    assert (created.state, version) == (LedgerState.IN_RECOVERY, 1)
    store.close()


def test_a_lost_create_whose_id_another_client_took_is_not_taken_for_ours(cluster: Cluster) -> None:
    """The token tells: the ledger under the id is there, and it is the other client's."""
    ours, others = metadata_maker(), metadata_maker()

    class RacedStore(MemoryStore):
        """Our step is not made, and another client makes its ledger before we look."""

        is_first = True

        def multi(self, operations: Sequence[Operation]) -> None:
            if not self.is_first:
                super().multi(operations)
                return
            self.is_first = False
            cluster.others.create(others)
            raise MetadataUnavailableError(self.address, "the reply was lost")

    cluster.ledgers._swap.make_parents(cluster.ledgers._path(0))
    store = RacedStore(cluster.tree)

    created, _version = cluster.client(store).create(ours)

    assert created == ours(1)
    assert cluster.others.read(0)[0] == others(0)
    store.close()


def test_many_are_made_in_one_step_under_ids_in_a_row(cluster: Cluster) -> None:
    cluster.others.create(metadata_maker())

    made = cluster.ledgers.create_many(metadata_maker(), 20)

    assert [one.ledger_id for one, _version in made] == list(range(1, 21))
    assert [cluster.others.read(ledger_id) for ledger_id in range(1, 21)] == made
    assert cluster.others.next_ledger_id() == 21


def test_many_whose_reply_was_lost_are_found_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    cluster.store.lose_next_reply()

    made = cluster.ledgers.create_many(metadata_maker(), 5)

    assert [one.ledger_id for one, _version in made] == [1, 2, 3, 4, 5]
    assert list(cluster.ledgers.list()) == [0, 1, 2, 3, 4, 5]


def test_of_many_all_are_made_or_none(cluster: Cluster) -> None:
    """One of them is there: a counter put back by hand."""
    for _ in range(3):
        cluster.ledgers.create(metadata_maker())
    counter = cluster.store.get(IDGEN)
    cluster.store.set(IDGEN, encode(IdCounter(next_ledger_id=1)), counter.version)

    made = cluster.ledgers.create_many(metadata_maker(), 4)

    assert [one.ledger_id for one, _version in made] == [3, 4, 5, 6]
    assert list(cluster.ledgers.list()) == list(range(7))


def test_a_create_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    calls: list[int] = []
    make = metadata_maker()

    def make_and_fail_once(ledger_id: int) -> LedgerMetadata:
        if not calls:
            cluster.store.fail_next()  # the multi that follows
        calls.append(ledger_id)
        return make(ledger_id)

    created, _ = cluster.ledgers.create(make_and_fail_once)

    assert calls == [1, 1]
    assert created.ledger_id == 1
    assert list(cluster.ledgers.list()) == [0, 1]


def test_an_unanswered_read_back_leaves_the_outcome_unknown(cluster: Cluster) -> None:
    make = metadata_maker()

    def make_and_go(ledger_id: int) -> LedgerMetadata:
        cluster.store.fail_next(2)  # the multi, and the reading back
        return make(ledger_id)

    with pytest.raises(MetadataUnavailableError) as caught:
        cluster.ledgers.create(make_and_go)
    assert caught.value.outcome == "unknown"


def test_a_create_that_loses_the_race_takes_the_next_id_after_a_pause(cluster: Cluster) -> None:
    cluster.others.create(metadata_maker())
    cluster.pauses_s.clear()
    make = metadata_maker()
    asked: list[int] = []

    def slow_make(ledger_id: int) -> LedgerMetadata:
        if len(asked) < 2:
            cluster.others.create(metadata_maker())
        asked.append(ledger_id)
        return make(ledger_id)

    created, _ = cluster.ledgers.create(slow_make)

    assert asked == [1, 2, 3]
    assert created.ledger_id == 3
    assert len(cluster.pauses_s) == 2
    assert all(0 <= pause_s <= 0.1 for pause_s in cluster.pauses_s)


def test_a_create_that_always_loses_gives_up(cluster: Cluster) -> None:
    make = metadata_maker()

    def always_late(ledger_id: int) -> LedgerMetadata:
        cluster.others.create(metadata_maker())
        return make(ledger_id)

    with pytest.raises(MetadataConflictError, match="in a row"):
        cluster.ledgers.create(always_late)


def test_a_counter_put_back_by_hand_overwrites_no_ledger(cluster: Cluster) -> None:
    """B19: nor when the counter is wrong."""
    old = [cluster.ledgers.create(metadata_maker())[0] for _ in range(3)]
    version = cluster.store.get(IDGEN).version
    cluster.store.set(IDGEN, encode(IdCounter(next_ledger_id=1)), version)

    new, _ = cluster.ledgers.create(metadata_maker())

    assert new.ledger_id == 3
    assert [cluster.ledgers.read(ledger.ledger_id)[0] for ledger in old] == old
