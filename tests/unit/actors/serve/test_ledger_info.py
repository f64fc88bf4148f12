"""A bookie says what it holds of a ledger once that is durable, or at once if it need not be."""

import pytest

from tests.support.fences import fence, with_entries
from tests.support.storage_actor import add, batch, write_lac
from zbk.protocol.entry.words import LedgerType
from zbk.wire.messages import GetLedgerInfo, LedgerInfo


def test_a_fence_is_told_of_once_it_is_durable() -> None:
    world = with_entries(b"a")
    world.say(fence())
    world.answers.clear()

    world.say(GetLedgerInfo(request_id=3, ledger_id=7))
    world.written()
    assert not any(isinstance(one, LedgerInfo) for one in world.answers)

    world.synced()
    world.say(GetLedgerInfo(request_id=4, ledger_id=7))
    told = [one for one in world.answers if isinstance(one, LedgerInfo)]
    assert [(one.request_id, one.is_fenced) for one in told] == [(3, True), (4, True)]


@pytest.mark.parametrize("is_recovery", [False, True])
@pytest.mark.parametrize("kind", list(LedgerType))
def test_what_is_held_is_told_once_it_is_on_stable_storage(
    kind: LedgerType, is_recovery: bool
) -> None:
    """A repair drops another replica for it, and the power may fail."""
    world = with_entries(b"a")
    world.say(*add(batch(0, [b"b"], ledger_id=9), kind=kind, is_recovery=is_recovery))
    world.answers.clear()

    world.say(GetLedgerInfo(request_id=3, ledger_id=9))
    world.written()
    assert not any(isinstance(one, LedgerInfo) for one in world.answers)

    world.synced()
    (told,) = [one for one in world.answers if isinstance(one, LedgerInfo)]
    assert told.ranges == [(0, 0)]


@pytest.mark.parametrize("kind", list(LedgerType))
def test_a_look_that_promises_nothing_is_answered_at_once_and_syncs_nothing(
    kind: LedgerType,
) -> None:
    world = with_entries(b"a")
    world.say(*add(batch(0, [b"b", b"c"], ledger_id=9), kind=kind))
    world.say(write_lac(0, ledger_id=9, kind=kind))
    world.say(fence(kind, ledger_id=9))
    world.written()
    count = len(world.groups)
    world.answers.clear()

    world.say(GetLedgerInfo(request_id=3, ledger_id=9, is_at_once=True))
    (told,) = world.answers
    assert isinstance(told, LedgerInfo)
    assert (told.ranges, told.last_entry_id) == ([(0, 1)], 1)
    assert (told.is_fenced, told.lac) == (True, 0), "as it is now"
    assert told.last_add_synced == (0 if kind.is_volatile else -1), "the LAC, and no further"
    assert len(world.groups) == count, "no sync was asked for"
