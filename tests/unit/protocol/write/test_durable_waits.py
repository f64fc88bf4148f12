"""Calls that wait until entries of a VD ledger are durable."""

import pytest

from tests.support.writer_cluster import WriterCluster
from tests.support.writer_limits import LIMITS
from zbk.errors import BookieUnavailableError, BusyError, CannotAdvanceError, LedgerClosedError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.durable_waits import DurableWaits
from zbk.protocol.write.events import (
    CloseLedger,
    DurableRequested,
    Effect,
    SendSync,
    SyncDone,
    SyncFailedFor,
)
from zbk.protocol.write.sync_rounds import SyncRounds


class Waiting(WriterCluster):
    """A VD writer whose waits for single entries are remembered by their tickets."""

    def __init__(self, ledger_type: LedgerType = LedgerType.VD_JOURNAL) -> None:
        super().__init__(Quorum(3, 3, 2), ledger_type)
        self.waits: set[str] = set()
        self.told: list[tuple[str, int | str]] = []
        for slot in range(3):
            self.connect(slot)

    def wait_for(self, *waits: tuple[str, int]) -> None:
        for name, entry_id in waits:
            self.waits.add(name)
            self.handle(DurableRequested(name, entry_id))

    def serve_all(self, *slots: int) -> None:
        while any(self.bookies[slot].requests or self.bookies[slot].answers for slot in slots):
            for slot in slots:
                self.serve(slot)
                self.answer(slot, 0)

    @property
    def sync_count(self) -> int:
        return sum(isinstance(one, SendSync) for one in self.bookies[0].requests)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SyncDone(ticket, last_entry_id) if ticket in self.waits:
                assert last_entry_id <= self.core.path.lac
                self.told.append((ticket, last_entry_id))
            case SyncFailedFor(ticket, error) if ticket in self.waits:
                self.told.append((ticket, type(error).__name__))
            case _:
                super()._carry_out(effect)


def test_a_wait_syncs_and_is_over_when_an_ack_quorum_has_synced() -> None:
    cluster = Waiting()
    cluster.append([1])
    cluster.serve_all(0, 1, 2)
    assert cluster.core.path.last_acked_id == 0

    cluster.wait_for(("a", 0))
    assert cluster.sync_count == 1
    cluster.serve_all(0)
    assert cluster.told == [], "one bookie is no ack quorum"
    cluster.serve_all(1)

    assert cluster.told == [("a", 0)]


def test_one_sync_serves_all_that_wait_and_the_next_those_that_came_later() -> None:
    cluster = Waiting()
    cluster.append([1, 1, 1])
    cluster.serve_all(0, 1, 2)

    cluster.wait_for(("b", 2), ("a", 0))
    cluster.append([1])
    cluster.wait_for(("c", 1), ("d", 3))
    assert cluster.sync_count == 1
    cluster.serve_all(0, 1, 2)

    assert [name for name, _lac in cluster.told] == ["a", "c", "b", "d"]
    assert cluster.core.path.lac == 3
    assert not cluster.core.is_watching


def test_what_is_durable_is_answered_at_once_also_after_the_close() -> None:
    cluster = Waiting()
    cluster.append([1])
    cluster.serve_all(0, 1, 2)
    cluster.close()
    cluster.serve_all(0, 1, 2)
    cluster.heal()
    assert cluster.core.path.lac == 0

    cluster.wait_for(("a", 0))

    assert cluster.told == [("a", 0)]
    assert cluster.sync_count == 0


def test_on_a_pd_ledger_the_acknowledgement_is_enough() -> None:
    cluster = Waiting(LedgerType.PD_JOURNAL)
    cluster.append([1])

    cluster.wait_for(("a", 0))
    assert cluster.told == []
    cluster.serve_all(0, 1)

    assert cluster.told == [("a", 0)]
    assert cluster.sync_count == 0


def test_a_wait_fails_where_too_few_bookies_can_sync_and_later_ones_get_the_next_sync() -> None:
    cluster = Waiting()
    cluster.append([1])
    cluster.serve_all(0, 1, 2)
    cluster.disconnect(1)
    cluster.serve_metadata()  # there is no replacement
    cluster.disconnect(2)
    cluster.serve_metadata()

    cluster.wait_for(("a", 0))
    cluster.serve_all(0)
    cluster.wait(LIMITS.quorum_grace_ms)
    cluster.serve_metadata()

    assert cluster.told == [("a", CannotAdvanceError.__name__)]
    cluster.wait_for(("b", 0))
    cluster.connect(1)
    cluster.serve_all(0, 1)
    assert cluster.told[1:] == [("b", 0)]


def test_the_end_of_the_writer_answers_what_waits() -> None:
    cluster = Waiting()
    cluster.append([1, 1])
    cluster.serve_all(0, 1, 2)
    cluster.wait_for(("a", 1))

    cluster.recover()
    cluster.append([1])
    cluster.serve_all(0, 1, 2)

    assert cluster.core.error is not None
    assert [name for name, _what in cluster.told] == ["a"]
    cluster.wait_for(("b", 1))
    assert [name for name, _what in cluster.told] == ["a", "b"]


def test_a_close_that_accepts_the_loss_says_that_an_entry_is_not_in_the_ledger() -> None:
    cluster = Waiting()
    cluster.append([1])
    cluster.serve_all(0, 1, 2)
    for slot in range(3):
        cluster.disconnect(slot)
        cluster.serve_metadata()  # there is no replacement
    cluster.close(accepts_loss=True)
    cluster.wait_for(("a", 0))

    for _ in range(4):
        cluster.wait(LIMITS.quorum_grace_ms)
        cluster.serve_metadata()

    assert cluster.told in (
        [("a", CannotAdvanceError.__name__)],
        [("a", LedgerClosedError.__name__)],
    )
    cluster.wait_for(("b", 0))
    assert cluster.told[1:] == [("b", LedgerClosedError.__name__)]


def test_too_many_waits_are_refused_and_the_others_stay() -> None:
    waits = DurableWaits(7, count_max=2)

    refused = [effect for name in "abc" for effect in waits.add(name, 0)]

    assert [(one.ticket, type(one.error)) for one in refused] == [("c", BusyError)]  # type: ignore[union-attr]
    failed = waits.fail_all(-1, BookieUnavailableError("b", "gone"))
    assert [one.ticket for one in failed] == ["a", "b"]  # type: ignore[union-attr]


def test_a_sync_that_fails_half_way_answers_what_it_made_durable() -> None:
    waits, syncs = (
        DurableWaits(7, count_max=4),
        SyncRounds(7, Quorum(3, 3, 2), grace_ms=1, count_max=1),
    )
    waits.add("a", 0)
    waits.add("b", 1)
    waits.drive(-1, syncs)
    waits.add("c", 2)

    answers = waits.failed(0, CannotAdvanceError(7, 0, 1, "two of three are away"))

    done, failed = answers
    assert done == SyncDone("a", 0)
    assert isinstance(failed, SyncFailedFor)
    assert failed.ticket == "b"
    assert len(waits) == 1, "the last one was not part of it"


@pytest.mark.parametrize("lac", [-1, 0, 1])
def test_a_writer_that_fails_still_says_what_is_durable(lac: int) -> None:
    waits = DurableWaits(7, count_max=4)
    waits.add("a", 0)
    waits.add("b", 1)

    answers = waits.fail_all(lac, BookieUnavailableError("b", "gone"))

    assert [isinstance(one, SyncDone) for one in answers] == [lac >= 0, lac >= 1]


@pytest.mark.parametrize("ledger_type", [LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL])
def test_a_wait_for_an_entry_that_was_not_appended_fails_and_holds_up_nothing(
    ledger_type: LedgerType,
) -> None:
    cluster = Waiting(ledger_type)
    cluster.wait_for(("early", 0))
    assert cluster.told == [("early", "ArgumentValueError")]

    cluster.append([1])
    cluster.wait_for(("later", 1))
    cluster.serve_all(0, 1, 2)
    cluster.sync()
    cluster.serve_all(0, 1, 2)
    cluster.close()
    cluster.serve_all(0, 1, 2)

    assert cluster.told[1:] == [("later", "ArgumentValueError")]
    assert cluster.core.error is None
    assert isinstance(cluster.end, CloseLedger)
