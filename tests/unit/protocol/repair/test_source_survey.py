"""What sources say that they hold, after one of them could not say."""

from tests.support.audit_ledgers import ledger
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.ledger_repair_events import HoldingsTold
from zbk.protocol.repair.source_survey import SourceSurvey

IN_LIMBO = HoldingsTold((), is_in_limbo=True)


def survey() -> SourceSurvey:
    """Return the survey for entry 1 of slot 1; its sources are the slots 0 and 2."""
    metadata = ledger(4, ("b0", "b1", "b2", "b3"), write_quorum_size=3)
    fragment = metadata.last_fragment
    order = CopyOrder(
        metadata=metadata,
        fragment=fragment,
        slot=1,
        target="x0",
        spans=((1, 1),),
        sources=(0, 2),
        lac=1,
    )
    return SourceSurvey.begun(order)


def test_what_no_source_holds_is_lost() -> None:
    asked = survey()
    asked.told(HoldingsTold(()))
    asked.told(IN_LIMBO)

    assert [(one.first_entry_id, one.count) for one in asked.lost()] == [(1, 1)]


def test_a_copy_that_is_not_due_on_its_slot_does_not_count() -> None:
    """No copy is made from it: a repair that waited for it would be tried for ever."""
    asked = survey()
    assert not asked.order.metadata.quorum.holds(0, 1)
    asked.told(HoldingsTold(((1, 1),)))
    asked.told(IN_LIMBO)

    assert [(one.first_entry_id, one.count) for one in asked.lost()] == [(1, 1)]


def test_a_copy_that_is_due_on_its_slot_counts() -> None:
    asked = survey()
    asked.told(HoldingsTold(()))
    asked.told(HoldingsTold(((1, 1),)))

    assert asked.lost() == ()


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
    asked = SourceSurvey.begun(order)
    assert (asked.to_ask, asked.rest) == (["b0", "b2"], (2, 9))

    asked.told(HoldingsTold(((2, 3),), last_entry_id=5))
    assert (asked.to_ask, asked.rest) == (["b0", "b2"], (6, 9))
    asked.told(HoldingsTold(((8, 9),)))
    assert (asked.to_ask, asked.rest) == (["b2"], (2, 9))
    asked.told(HoldingsTold(((4, 4),)))

    assert [(one.first_entry_id, one.last_entry_id) for one in asked.lost()] == [(5, 7)]
