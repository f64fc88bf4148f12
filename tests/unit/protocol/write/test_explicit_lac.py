"""When the answer of a sync may leave: its LAC is where every reader asks."""

import pytest

from zbk.protocol.ledger.coverage import Coverage
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import SendLac, SyncDone
from zbk.protocol.write.explicit_lac import ExplicitLac
from zbk.protocol.write.limits import WriterLimits

DONE = SyncDone("sync", 5)


def published(quorum: Quorum) -> ExplicitLac:
    """Return the state after a sync of a writer with all bookies."""
    slots = range(quorum.ensemble_size)
    explicit_lac = ExplicitLac(quorum, WriterLimits(), [0 for _slot in slots])
    assert explicit_lac.publish(DONE, slots, 0) == [SendLac(slot, 5) for slot in slots]
    return explicit_lac


@pytest.mark.parametrize(
    ("quorum", "slots"),
    [
        (Quorum(3, 3, 2), [2, 0]),
        (Quorum(6, 2, 2), [0, 3, 5]),  # 5 and 0 are one write set
        (Quorum(5, 3, 3), [0, 1, 3, 2]),
    ],
)
def test_an_ack_quorum_of_one_write_set_suffices(quorum: Quorum, slots: list[int]) -> None:
    explicit_lac = published(quorum)

    answers = [explicit_lac.taken(slot, 5) for slot in slots]

    assert answers == [[]] * (len(slots) - 1) + [[DONE]]


def test_a_reader_may_cover_a_striped_ensemble_without_as_many_bookies_of_several_write_sets() -> (
    None
):
    """Slots 0 and 3 have the LAC, and the others suffice for a reader."""
    coverage = Coverage(Quorum(6, 2, 2))
    for slot in (1, 2, 4, 5):
        coverage.know(slot)
    assert coverage.is_complete


def test_another_bookie_in_a_slot_is_told_what_its_predecessor_took() -> None:
    explicit_lac, slots = published(Quorum(3, 3, 2)), range(3)
    for slot in slots:
        explicit_lac.taken(slot, 5)
    idle_ms = WriterLimits().explicit_lac_ms
    explicit_lac.idle(5, 0)
    assert explicit_lac.tick(5, 3, slots, idle_ms) == []

    explicit_lac.replaced(1)

    assert explicit_lac.tick(5, 3, slots, idle_ms) == [SendLac(1, 5)]


def test_a_bookie_that_is_replaced_while_it_is_asked_is_not_waited_for() -> None:
    explicit_lac = published(Quorum(3, 3, 2))
    assert explicit_lac.taken(0, 5) == []
    assert explicit_lac.slot_down(2) == []

    assert explicit_lac.replaced(1) == [DONE]
