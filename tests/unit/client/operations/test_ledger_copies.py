"""What the bookies of a ledger hold, from their answers."""

import msgspec
import pytest

from tests.support.ledgers import metadata_maker
from zbk.client.operations.ledger_copies import LedgerCopy, copy_of
from zbk.errors import RequestTimeoutError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.wire.messages import LedgerInfo


def ledger(ledger_type: LedgerType) -> LedgerMetadata:
    """Return an open ledger; its first fragment ends at entry 9."""
    made = metadata_maker(ledger_type=ledger_type)(7)
    fragments = (Fragment(0, ("a", "b", "c")), Fragment(10, ("a", "d", "c")))
    return msgspec.structs.replace(made, fragments=fragments)


def info(*ranges: tuple[int, int], synced: int = -1, is_known: bool = True) -> LedgerInfo:
    last = max((one[1] for one in ranges), default=-1)
    return LedgerInfo(
        request_id=1,
        incarnation=1,
        is_known=is_known,
        last_entry_id=last,
        last_add_synced=synced,
        ranges=list(ranges),
    )


@pytest.mark.parametrize("kind", [LedgerType.VD_JOURNAL, LedgerType.VD_BYPASS_JOURNAL])
def test_a_vd_ledger_has_what_is_synced_and_what_is_not(kind: LedgerType) -> None:
    found = copy_of(ledger(kind), "a", info((0, 3), (6, 14), synced=3))

    assert (found.last_entry_id, found.last_add_synced, found.unsynced_count) == (14, 3, 11)
    assert found.holes == ((4, 5),)
    assert (found.own_log, found.why) == (None, "")


def test_a_pd_ledger_has_no_cursor() -> None:
    found = copy_of(ledger(LedgerType.PD_JOURNAL), "d", info((10, 12)))

    assert (found.last_entry_id, found.last_add_synced, found.unsynced_count) == (12, None, None)
    assert found.holes == ()


def test_what_is_not_known_has_a_reason() -> None:
    vd = ledger(LedgerType.VD_JOURNAL)
    assert copy_of(vd, "a", None) == LedgerCopy(bookie_id="a", why="no answer in time")
    assert copy_of(vd, "a", info(is_known=False)).why == "holds nothing of it"
    assert "no answer within 5 s" in copy_of(vd, "a", RequestTimeoutError("bookie a", 5)).why
