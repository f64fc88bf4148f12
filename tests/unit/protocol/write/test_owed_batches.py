"""What a slot missed while it was down: it is sent when it is up, or known to be missing."""

import msgspec
import pytest

from tests.support.writer_cluster import WriterCluster
from tests.support.writer_limits import LIMITS
from zbk.errors import BookieUnavailableError, NotEnoughBookiesError
from zbk.protocol.entry.entry import entry_size
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import CloseLedger, ReportMissing, SendAdd

LOST = BookieUnavailableError("b", "no answer")


def cluster_up(
    quorum: Quorum, ledger_type: LedgerType = LedgerType.PD_JOURNAL, spare_count: int = 1
) -> WriterCluster:
    limits = msgspec.structs.replace(LIMITS, window_count=16, backlog_count=16)
    cluster = WriterCluster(quorum, ledger_type, spare_count, limits)
    for slot in range(quorum.ensemble_size):
        cluster.connect(slot)
    return cluster


def append(cluster: WriterCluster, *slots: int, size: int = 1) -> None:
    """Append an entry; the bookies of these slots take everything that waits, and answer."""
    cluster.append([size])
    ack(cluster, *slots)


def ack(cluster: WriterCluster, *slots: int) -> None:
    for slot in slots:
        bookie = cluster.bookies[slot]
        while bookie.requests or bookie.answers:
            cluster.serve(slot)
            cluster.answer(slot, 0)


def sent_ids(cluster: WriterCluster, slot: int) -> list[int]:
    requests = cluster.bookies[slot].requests
    return [i for one in requests if isinstance(one, SendAdd) for i in one.batch.entry_ids]


def test_a_new_bookie_gets_what_was_acknowledged_while_it_was_connecting() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1, 2)
    cluster.disconnect(2)
    append(cluster, 0, 1)  # the change holds it back
    cluster.serve_metadata()
    assert cluster.core.path.last_acked_id == 1, "an ack quorum has it"
    append(cluster, 0, 1)

    cluster.connect(2)

    assert sent_ids(cluster, 2) == [1, 2]
    ack(cluster, 2)
    assert cluster.pool["spare0"].durable == {1, 2}
    assert cluster.core.path.backlog_size == 0
    assert cluster.core.path.missing.by_bookie == {}


def test_with_an_ack_quorum_of_one_no_entry_is_left_on_a_replaced_bookie_only() -> None:
    """The bookie that acknowledged it fails; the other one was not up yet, and has nothing."""
    cluster = cluster_up(Quorum(2, 2, 1))
    append(cluster, 0, 1)
    cluster.disconnect(0)
    append(cluster, 1)
    cluster.serve_metadata()
    append(cluster, 1)

    cluster.connect(0)
    ack(cluster, 0)

    assert cluster.pool["spare0"].durable == {1, 2}


@pytest.mark.parametrize("ledger_type", list(LedgerType))
def test_a_bookie_that_returns_gets_what_was_acknowledged_without_it(
    ledger_type: LedgerType,
) -> None:
    cluster = cluster_up(Quorum(3, 3, 2), ledger_type, spare_count=0)
    append(cluster, 0, 1, 2)
    cluster.append([1])
    ack(cluster, 0, 1)
    cluster.disconnect(2)  # it was sent entry 1, and nobody knows whether it has it
    ack(cluster, 0, 1)  # a VD writer syncs before it asks for another one
    cluster.serve_metadata()
    append(cluster, 0, 1)
    assert cluster.core.path.last_acked_id == 2

    cluster.connect(2)

    assert sent_ids(cluster, 2) == [1, 2]
    ack(cluster, 2)
    assert cluster.pool["b2"].held == {0, 1, 2}
    assert cluster.core.path.backlog_size == 0


def test_a_striped_slot_gets_its_own_part_of_what_it_missed() -> None:
    cluster = cluster_up(Quorum(3, 2, 1), spare_count=0)
    cluster.disconnect(1)
    cluster.serve_metadata()
    for _entry in range(4):
        append(cluster, 0, 2)

    cluster.connect(1)

    assert sent_ids(cluster, 1) == [0, 1, 3]


def test_what_a_down_slot_is_owed_holds_nothing_up_and_takes_no_more_than_the_backlog() -> None:
    cluster = cluster_up(Quorum(3, 3, 2), spare_count=0)
    cluster.disconnect(2)
    cluster.serve_metadata()
    size = entry_size(100, DigestType.XXH3)
    kept_count = -(-LIMITS.backlog_size // size)

    for entry_id in range(40):
        append(cluster, 0, 1, size=100)
        assert cluster.core.path.last_acked_id == entry_id, (
            "no append waits for the slot that is down"
        )

    assert cluster.core.path.backlog_size <= LIMITS.backlog_size + size
    given_up = 40 - kept_count
    assert cluster.core.path.missing.by_bookie == {"b2": ((0, given_up - 1),)}
    cluster.connect(2)
    assert sent_ids(cluster, 2) == list(range(given_up, 40)), "the newest ones, in order"


def test_a_replaced_bookie_misses_what_it_has_not_acknowledged_of_its_fragment() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1, 2)
    for _entry in range(3):
        append(cluster, 0, 1)
    assert cluster.core.path.last_acked_id == 3
    append(cluster, 0)

    cluster.disconnect(2)
    cluster.serve_metadata()

    assert [f.first_entry_id for f in cluster.metadata.ledger.fragments] == [0, 4]
    assert cluster.core.path.missing.by_bookie == {"b2": ((1, 3),)}
    cluster.connect(2)
    assert sent_ids(cluster, 2) == [4]


def test_a_connection_that_is_lost_again_is_owed_the_rest() -> None:
    cluster = cluster_up(Quorum(3, 3, 2), spare_count=0)
    cluster.disconnect(2)
    cluster.serve_metadata()
    for _entry in range(3):
        append(cluster, 0, 1)
    cluster.connect(2)
    cluster.serve(2)
    cluster.answer(2, 0)
    cluster.disconnect(2)
    append(cluster, 0, 1)

    cluster.connect(2)

    assert sent_ids(cluster, 2) == [1, 2, 3]


def test_what_a_restarted_bookie_acknowledged_and_has_not_synced_is_sent_again() -> None:
    """On a VD ledger, also what every bookie has answered: the writer keeps what is not durable."""
    cluster = cluster_up(Quorum(3, 3, 2), LedgerType.VD_JOURNAL)
    append(cluster, 0, 1, 2)
    append(cluster, 0, 1)
    cluster.bookies[0].crash(loses_power=True)

    cluster.connect(0)

    assert sent_ids(cluster, 0) == [0, 1]
    assert cluster.core.path.missing.by_bookie == {}


def test_what_a_restarted_bookie_is_heard_to_have_synced_is_not_missing() -> None:
    cluster = cluster_up(Quorum(3, 3, 2), LedgerType.VD_JOURNAL)
    append(cluster, 0, 1, 2)
    cluster.bookies[0].crash(loses_power=False)  # its start syncs what it finds
    cluster.connect(0)

    append(cluster, 0, 1, 2)

    assert cluster.core.path.missing.by_bookie == {}


def test_a_persistent_ledger_keeps_the_acknowledgements_of_a_restarted_bookie() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1, 2)
    append(cluster, 0, 1)
    cluster.bookies[0].crash(loses_power=True)

    cluster.connect(0)

    assert not sent_ids(cluster, 0)
    assert cluster.core.path.missing.by_bookie == {}


def test_close_waits_for_a_new_bookie_that_is_connecting() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1, 2)
    cluster.disconnect(2)
    append(cluster, 0, 1)
    cluster.serve_metadata()

    cluster.close()
    assert cluster.end is None, "it may take its entry any moment"
    cluster.connect(2)
    ack(cluster, 2)

    assert isinstance(cluster.end, CloseLedger)
    assert cluster.pool["spare0"].durable == {1}
    assert cluster.core.path.missing.by_bookie == {}


def test_close_waits_no_longer_than_the_linger_time_for_a_bookie_that_is_connecting() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    cluster.disconnect(2)
    append(cluster, 0, 1)
    cluster.serve_metadata()
    cluster.close()

    cluster.wait(LIMITS.close_linger_ms)

    assert isinstance(cluster.end, CloseLedger)
    assert cluster.core.path.missing.by_bookie == {"spare0": ((0, 0),)}


def test_close_does_not_wait_for_a_bookie_that_has_failed() -> None:
    cluster = cluster_up(Quorum(3, 3, 2), spare_count=0)
    cluster.disconnect(2)
    cluster.serve_metadata()
    append(cluster, 0, 1)

    cluster.close()

    assert isinstance(cluster.end, CloseLedger)
    assert cluster.core.path.missing.by_bookie == {"b2": ((0, 0),)}


# ------------------------------------------------------------------ what autorecovery is told


def test_what_a_replaced_bookie_lacks_is_reported_when_its_fragment_ends() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1, 2)
    append(cluster, 0, 1)
    cluster.disconnect(2)

    cluster.serve_metadata()

    assert cluster.reports == [ReportMissing({"b2": ((1, 1),)})]


def test_what_was_reported_is_not_reported_again_with_the_close() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1)
    cluster.disconnect(2)
    cluster.serve_metadata()
    cluster.note_reports()
    cluster.connect(2)

    cluster.close()

    assert closed(cluster).missing == {}
    assert cluster.core.path.missing.by_bookie == {"b2": ((0, 0),)}, "the application is told all"


def test_what_could_not_be_reported_is_reported_with_the_close() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1)
    cluster.disconnect(2)
    cluster.serve_metadata()
    cluster.connect(2)

    cluster.close()  # nobody has noted the report

    assert closed(cluster).missing == {"b2": ((0, 0),)}


def test_of_a_bookie_that_may_come_back_nothing_is_reported_while_the_ledger_is_open() -> None:
    """A worker that is told of it gives the writer a grace time only, and takes the ledger."""
    cluster = cluster_up(Quorum(4, 4, 2), spare_count=1)
    for slot in (2, 3):
        cluster.disconnect(slot)
        append(cluster, 0, 1)
        cluster.serve_metadata()  # the second time no spare bookie is left
    for _entry in range(20):  # more than is kept
        append(cluster, 0, 1)
    assert cluster.core.path.missing.by_bookie.keys() >= {"b3"}
    named = {bookie for report in cluster.reports for bookie in report.missing}
    assert "b3" not in named

    cluster.close()
    cluster.wait(LIMITS.close_linger_ms)
    assert "b3" in closed(cluster).missing


def test_stragglers_that_did_not_answer_in_time_are_reported_with_the_close() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    append(cluster, 0, 1)
    cluster.close()

    cluster.wait(LIMITS.close_linger_ms)

    assert closed(cluster).missing == {"b2": ((0, 0),)}


def test_after_an_error_the_close_reports_what_is_missing_up_to_the_end() -> None:
    """Entry 1 is not acknowledged, and not in the ledger: nobody lacks it."""
    cluster = cluster_up(Quorum(3, 3, 2), spare_count=0)
    append(cluster, 0, 1)
    for slot in (1, 2):
        cluster.disconnect(slot)
        cluster.serve_metadata()
    cluster.append([1])
    for _ in range(3):
        cluster.serve_metadata()
        cluster.wait(LIMITS.quorum_grace_ms)
    assert isinstance(cluster.core.error, NotEnoughBookiesError)

    cluster.close()

    end = closed(cluster)
    assert (end.last_entry_id, end.missing) == (0, {"b2": ((0, 0),)})


def test_a_healthy_ledger_is_closed_without_a_report() -> None:
    cluster = cluster_up(Quorum(3, 3, 2))
    for _entry in range(3):
        append(cluster, 0, 1, 2)

    cluster.close()

    assert closed(cluster).missing == {}
    assert cluster.reports == []


def closed(cluster: WriterCluster) -> CloseLedger:
    assert isinstance(cluster.end, CloseLedger)
    return cluster.end
