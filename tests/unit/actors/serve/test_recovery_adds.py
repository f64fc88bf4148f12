"""A recovery adds copies of entries, to fenced ledgers too, and an answer waits for their sync."""

import pytest

from tests.support.fences import FENCED, bookie, fence, with_entries
from tests.support.storage_actor import add, batch
from zbk.errors import DuplicateEntryError, LedgerFencedError
from zbk.protocol.entry.words import LedgerType
from zbk.wire.messages import AddAnswer

VD = LedgerType.VD_JOURNAL


@pytest.mark.parametrize("kind", LedgerType)
def test_a_recovery_add_is_taken_by_a_fenced_ledger_and_answered_after_the_sync(
    kind: LedgerType,
) -> None:
    """B18: copies of recovery are no late writer's."""
    world = with_entries(b"a", kind=kind)
    world.say(fence(kind))
    world.settle()
    world.answers.clear()

    world.say(*add(batch(1, [b"b"]), kind=kind, is_recovery=True))
    world.written()
    assert world.answers == []
    world.synced()

    assert isinstance(world.answers[-1], AddAnswer)
    world.say(*add(batch(2, [b"c"]), kind=kind))
    assert world.last_error() is LedgerFencedError, "it is fenced as before"


def test_a_recovery_add_makes_a_ledger_known_and_does_not_fence_it() -> None:
    world = bookie()

    world.say(*add(batch(3, [b"d"]), kind=VD, is_recovery=True))
    world.settle()

    assert isinstance(world.answers[-1], AddAnswer)
    world.say(*add(batch(4, [b"e"]), kind=VD))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)


def test_a_recovery_add_of_a_stored_entry_waits_until_that_is_durable() -> None:
    world = bookie()
    world.say(*add(batch(0, [b"a"]), kind=VD))
    world.written()
    world.say(fence(VD))
    world.answers.clear()

    world.say(*add(batch(0, [b"a"]), kind=VD, is_recovery=True, request_id=4))
    world.written()
    assert world.answers == []
    world.synced()

    assert [answer.request_id for answer in world.answers] == [FENCED, 4]


def test_a_recovery_add_with_other_bytes_is_refused() -> None:
    world = with_entries(b"a")

    world.say(*add(batch(0, [b"X"]), is_recovery=True))

    assert world.last_error() is DuplicateEntryError
