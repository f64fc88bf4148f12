"""When the answer of a sync may leave: its LAC is where every reader asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.ledger.coverage import Coverage
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import SendLac, SyncDone
from zbk.protocol.write.explicit_lac import RETRY_MS, ExplicitLac
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


def test_what_a_sync_told_and_no_bookie_took_is_told_again_when_the_writer_has_been_idle() -> None:
    """Until then no tick is due: one that changes nothing would be due again at once."""
    explicit_lac, slots = published(Quorum(3, 3, 2)), range(3)
    for slot in slots:
        explicit_lac.failed(slot, 5)
    now_ms = 3 * RETRY_MS
    explicit_lac.idle(5, now_ms)

    due_ms = explicit_lac.due_ms(3, slots)

    assert due_ms == now_ms + WriterLimits().explicit_lac_ms
    assert explicit_lac.tick(5, 3, slots, due_ms - 1) == []
    assert explicit_lac.tick(5, 3, slots, due_ms) == [SendLac(slot, 5) for slot in slots]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["sync", "taken", "failed", "replaced", "idle"]),
            st.integers(0, 2),
            st.sampled_from([0, 0, 1, 99, 100, RETRY_MS]),
        ),
        max_size=30,
    )
)
def test_a_tick_that_is_due_is_not_due_again_at_once(steps: list[tuple[str, int, int]]) -> None:
    slots = range(3)
    explicit_lac = ExplicitLac(Quorum(3, 3, 2), WriterLimits(), [0, 0, 0])
    lac = now_ms = 0
    for what, number, pause_ms in steps:
        now_ms += pause_ms
        match what:
            case "sync":
                lac += number
                explicit_lac.publish(SyncDone("sync", lac), slots, now_ms)
            case "taken":
                explicit_lac.taken(number, lac)
            case "failed":
                explicit_lac.failed(number, lac)
            case "replaced":
                explicit_lac.replaced(number)
            case _:
                explicit_lac.idle(lac, now_ms)
        due_ms = explicit_lac.due_ms(-1, slots)
        if due_ms is not None and due_ms <= now_ms:
            explicit_lac.tick(lac, -1, slots, now_ms)
            again_ms = explicit_lac.due_ms(-1, slots)
            assert again_ms is None or again_ms > now_ms
