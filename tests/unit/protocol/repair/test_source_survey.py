"""What sources say that they hold, after one of them could not say."""

from tests.support.audit_ledgers import ledger
from zbk.protocol.procedure import Procedure
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.source_survey import survey_sources

IN_LIMBO = Holdings((), is_in_limbo=True)

ORDER = CopyOrder(
    metadata=ledger(4, ("b0", "b1", "b2", "b3"), write_quorum_size=3),
    fragment=ledger(4, ("b0", "b1", "b2", "b3"), write_quorum_size=3).last_fragment,
    slot=1,
    target="x0",
    spans=((1, 1),),
    sources=(0, 2),
    lac=1,
)
"""Entry 1 of slot 1; its sources are the slots 0 and 2."""


def lost(order: CopyOrder, *answers: Holdings) -> tuple[LostEntries, ...]:
    """Return what is lost after these answers, one after the other."""
    procedure = Procedure(survey_sources(order))
    procedure.begin()
    for answer in answers:
        procedure.answer(answer)
    return procedure.result.lost()


def test_what_no_source_holds_is_lost() -> None:
    found = lost(ORDER, Holdings(()), IN_LIMBO)

    assert [(one.first_entry_id, one.count) for one in found] == [(1, 1)]


def test_a_copy_that_is_not_due_on_its_slot_does_not_count() -> None:
    """No copy is made from it: a repair that waited for it would be tried for ever."""
    assert not ORDER.metadata.quorum.holds(0, 1)

    found = lost(ORDER, Holdings(((1, 1),)), IN_LIMBO)

    assert [(one.first_entry_id, one.count) for one in found] == [(1, 1)]


def test_a_copy_that_is_due_on_its_slot_counts() -> None:
    assert lost(ORDER, Holdings(()), Holdings(((1, 1),))) == ()


def test_each_source_is_asked_for_all_of_it_though_the_one_before_told_it_in_parts() -> None:
    metadata = ledger(4, ("b0", "b1", "b2"))
    order = CopyOrder(
        metadata=metadata,
        fragment=metadata.last_fragment,
        slot=1,
        target="x0",
        spans=((2, 9),),
        sources=(0, 2),
        lac=9,
    )
    procedure = Procedure(survey_sources(order))
    assert procedure.begin() == AskHoldings("b0", (2, 9))

    assert procedure.answer(Holdings(((2, 3),), last_entry_id=5)) == AskHoldings("b0", (6, 9))
    assert procedure.answer(Holdings(((8, 9),))) == AskHoldings("b2", (2, 9))
    assert procedure.answer(Holdings(((4, 4),))) is None

    found = procedure.result.lost()
    assert [(one.first_entry_id, one.last_entry_id) for one in found] == [(5, 7)]
