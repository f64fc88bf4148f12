"""The durability levels: what each promises, on both sides."""

import pytest

from zbk.durability.level import LEVELS, DurabilityLevel, level_of
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import Stripe
from zbk.protocol.write.lac_policy import cursor_stripes

PD = level_of(LedgerType.PD_JOURNAL)
VD = level_of(LedgerType.VD_JOURNAL)


def test_every_ledger_type_has_its_level() -> None:
    assert set(LEVELS) == set(LedgerType)


def test_pd_is_acknowledged_after_the_fsync_and_vd_after_the_write() -> None:
    assert PD.acknowledges_after == "sync"
    assert VD.acknowledges_after == "write"


def test_only_vd_syncs_before_close_and_loses_acks_by_a_restart() -> None:
    assert not PD.restart_revokes_acks
    assert VD.restart_revokes_acks


def test_only_the_bookies_of_striped_vd_ledgers_are_told_a_stripe() -> None:
    assert cursor_stripes(Quorum(3, 2, 2), PD) == (None, None, None)
    assert cursor_stripes(Quorum(2, 2, 2), VD) == (None, None)
    assert cursor_stripes(Quorum(3, 2, 2), VD) == tuple(Stripe(3, 2, slot) for slot in range(3))


def test_the_lac_of_pd_follows_acks() -> None:
    policy = PD.new_lac_policy(Quorum(3, 3, 2))

    policy.on_synced(0, 1, 9)
    policy.on_synced(1, 1, 9)
    assert policy.lac == -1
    policy.on_acked(4)

    assert policy.lac == 4


def test_the_lac_of_vd_follows_syncs() -> None:
    policy = VD.new_lac_policy(Quorum(3, 3, 2))

    policy.on_acked(9)
    assert policy.lac == -1
    policy.on_synced(0, 1, 4)
    policy.on_synced(1, 1, 6)

    assert policy.lac == 4


def test_writers_do_not_share_a_lac_policy() -> None:
    one, other = PD.new_lac_policy(Quorum(1, 1, 1)), PD.new_lac_policy(Quorum(1, 1, 1))

    one.on_acked(4)

    assert other.lac == -1


@pytest.mark.parametrize("level", LEVELS.values(), ids=map(str, LEVELS))
def test_a_level_has_a_cursor_when_it_says_so(level: DurabilityLevel) -> None:
    cursor = level.new_sync_cursor(5)

    assert (cursor is not None) == level.has_sync_cursor
    assert cursor is None or cursor.last_add_synced == 5
