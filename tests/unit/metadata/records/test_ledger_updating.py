"""LedgerStore changes metadata of ledgers by compare-and-swap, on a store that fails on cue."""

import pytest

from tests.support.ledger_records import Cluster, cluster
from tests.support.ledgers import metadata_maker
from zbk.errors import IllegalTransitionError, MetadataConflictError, NoSuchLedgerError
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata

__all__ = ["cluster"]


def test_an_update_is_decided_again_on_what_another_wrote(cluster: Cluster) -> None:
    """B14: a conflict is never answered by writing over it."""
    ledger_id = cluster.ledgers.create(metadata_maker())[0].ledger_id
    cluster.pauses_s.clear()
    seen: list[LedgerState] = []

    def close_slowly(current: LedgerMetadata) -> LedgerMetadata:
        seen.append(current.state)
        if len(seen) == 1:
            cluster.others.update(ledger_id, LedgerMetadata.with_recovery)
        return current.with_closed(-1, 0)

    closed, version = cluster.ledgers.update(ledger_id, close_slowly)

    assert seen == [LedgerState.OPEN, LedgerState.IN_RECOVERY]
    assert (closed.state, version) == (LedgerState.CLOSED, 2)
    assert len(cluster.pauses_s) == 1


def test_an_update_with_nothing_to_do_writes_nothing(cluster: Cluster) -> None:
    created, _ = cluster.ledgers.create(metadata_maker())

    for change in (lambda _current: None, lambda current: current):
        assert cluster.ledgers.update(0, change) == (created, 0)
    assert cluster.ledgers.read(0) == (created, 0)


def test_an_update_whose_reply_was_lost_is_recognised(cluster: Cluster) -> None:
    """B14: our own write is not taken for another's."""
    cluster.ledgers.create(metadata_maker())
    calls: list[LedgerState] = []

    def recover(current: LedgerMetadata) -> LedgerMetadata:
        calls.append(current.state)
        return current.with_recovery()

    cluster.store.lose_next_reply()
    recovering, version = cluster.ledgers.update(0, recover)

    assert (recovering.state, version) == (LedgerState.IN_RECOVERY, 1)
    assert calls == [LedgerState.OPEN]


def test_an_update_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    calls: list[LedgerState] = []

    def recover(current: LedgerMetadata) -> LedgerMetadata:
        if not calls:
            cluster.store.fail_next()
        calls.append(current.state)
        return current.with_recovery()

    assert cluster.ledgers.update(0, recover)[1] == 1
    assert calls == [LedgerState.OPEN, LedgerState.OPEN]


@pytest.mark.parametrize("who", ["we", "they"])
def test_one_of_two_claims_wins_even_when_a_reply_is_lost(cluster: Cluster, who: str) -> None:
    """Both write the same metadata; only the token tells whose write it is."""
    cluster.ledgers.create(metadata_maker(has_writer=False))

    def claim(current: LedgerMetadata) -> LedgerMetadata:
        wanted = current.with_writer()
        if who == "they" and not current.has_writer:
            cluster.others.update(0, LedgerMetadata.with_writer)
            cluster.store.fail_next()  # ours is not made, and we do not know
        elif who == "we":
            cluster.store.lose_next_reply()
        return wanted

    if who == "we":
        assert cluster.ledgers.update(0, claim)[0].has_writer
    else:
        with pytest.raises(IllegalTransitionError, match="a writer already"):
            cluster.ledgers.update(0, claim)
    assert cluster.others.read(0)[1] == 1


def test_an_illegal_change_is_refused_before_it_is_written(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    cluster.ledgers.update(0, lambda current: current.with_closed(9, 90))

    with pytest.raises(IllegalTransitionError):
        cluster.ledgers.update(0, lambda current: current.with_closed(8, 80))
    with pytest.raises(IllegalTransitionError, match="creation_token never changes"):
        cluster.ledgers.update(0, lambda _current: metadata_maker()(0))
    assert cluster.ledgers.read(0)[1] == 1


def test_an_update_that_always_loses_gives_up(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())
    path = cluster.ledgers._path(0)

    def always_late(current: LedgerMetadata) -> LedgerMetadata:
        node = cluster.other_store.get(path)
        cluster.other_store.set(path, node.value, node.version)
        return current.with_recovery()

    with pytest.raises(MetadataConflictError, match="others changed it"):
        cluster.ledgers.update(0, always_late)


def test_an_update_of_a_ledger_deleted_meanwhile_finds_none(cluster: Cluster) -> None:
    cluster.ledgers.create(metadata_maker())

    def delete_first(current: LedgerMetadata) -> LedgerMetadata:
        cluster.others.delete(0)
        return current.with_recovery()

    with pytest.raises(NoSuchLedgerError):
        cluster.ledgers.update(0, delete_first)
