"""The end of a ledger as whole stories: at which entry it is, and who else may have set it."""

from tests.support.writer_limits import LIMITS
from tests.support.writer_stories import ack, cluster_up, fragments
from zbk.errors import LedgerClosedError, LedgerFencedError
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import CloseFailed, CloseLedger


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
