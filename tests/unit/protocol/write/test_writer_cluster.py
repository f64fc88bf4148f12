"""WriterCore in a cluster whose faults the test chooses, and what that cluster can show."""

import random
from collections.abc import Callable

import msgspec
import pytest

from tests.support.writer_cluster import WriterCluster
from tests.support.writer_limits import LIMITS, PAYLOAD_SIZE_MAX
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import CloseLedger


def test_bookies_that_are_away_in_turn_get_what_is_not_durable() -> None:
    chance = random.Random(1)
    limits = msgspec.structs.replace(  # nothing durable is kept for a bookie that is away
        LIMITS,
        window_count=1,
        backlog_count=1,
        unsynced_size_max=1_000_000,  # and nothing becomes durable while one is away
        unsynced_batch_count_max=1_000,
    )
    for _ in range(20):
        cluster = WriterCluster(Quorum(3, 3, 2), LedgerType.VD_JOURNAL, limits=limits)
        _run(cluster, 1)
        for _ in range(20):
            absent = chance.randrange(3)
            cluster.disconnect(absent)
            for _append in range(3):  # it asks for another bookie in vain
                _append_and_answer(cluster)
            while cluster.is_waiting():
                _answer_all(cluster)
            cluster.connect(absent)
            _answer_all(cluster)

        cluster.close()
        cluster.heal()

        assert isinstance(cluster.end, CloseLedger)
        assert cluster.end.last_entry_id == cluster.acked_id
        assert all(len(bookie.held) >= cluster.acked_id for bookie in cluster.bookies)
        cluster.check_copies()


def _run(cluster: WriterCluster, rounds: int) -> None:
    for slot in range(cluster.quorum.ensemble_size):
        cluster.connect(slot)
    for number in range(rounds):
        cluster.append([number % PAYLOAD_SIZE_MAX, 1, 2])
        for slot in range(cluster.quorum.ensemble_size):
            cluster.serve(slot)
            cluster.answer(slot, 0)


@pytest.mark.parametrize("ledger_type", list(LedgerType))
@pytest.mark.parametrize("is_synced", [True, False])
def test_without_faults_everything_is_acked_and_closed_durable(
    ledger_type: LedgerType, is_synced: bool
) -> None:
    cluster = WriterCluster(Quorum(3, 3, 2), ledger_type)

    _run(cluster, 100)
    if is_synced:
        cluster.sync()
        cluster.heal()
        assert cluster.core.path.lac == 299
    cluster.close()
    cluster.heal()

    assert isinstance(cluster.end, CloseLedger)
    assert cluster.end.last_entry_id == 299


@pytest.mark.parametrize(
    ("break_it", "name"),
    [
        (lambda cluster: setattr(cluster.bookies[1], "is_fenced", True), "LedgerFencedError"),
        (lambda cluster: cluster.bookies[0].crash(loses_power=True), "suspect: WrongBookieError"),
    ],
)
def test_the_cluster_reaches_what_it_is_made_for(
    break_it: Callable[[WriterCluster], None], name: str
) -> None:
    cluster = WriterCluster(Quorum(3, 3, 3), LedgerType.VD_JOURNAL)
    _run(cluster, 3)

    break_it(cluster)
    _append_and_answer(cluster)

    assert name in cluster.seen


def _append_and_answer(cluster: WriterCluster) -> None:
    cluster.append([1])
    _answer_all(cluster)


def _answer_all(cluster: WriterCluster) -> None:
    cluster.serve_metadata()
    for slot, bookie in enumerate(cluster.bookies):
        while bookie.requests or bookie.answers:
            cluster.serve(slot)
            cluster.answer(slot, 0)
