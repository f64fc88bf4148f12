"""What the bookies of a ledger hold, from their answers."""

import msgspec
import pytest

from tests.support.ledgers import metadata_maker
from zbk.client.operations.ledger_copies import LedgerCopy, copy_of, left_out_count
from zbk.errors import RequestTimeoutError
from zbk.protocol.entry.words import LedgerState, LedgerType
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


def test_a_page_that_ends_before_the_first_fragment_says_that_nothing_is_known() -> None:
    """It has entries of fragments that were moved away from the bookie."""
    changed = msgspec.structs.replace(
        ledger(LedgerType.VD_JOURNAL),
        fragments=(
            Fragment(0, ("a", "b", "c")),
            Fragment(10, ("a", "d", "c")),
            Fragment(20, ("a", "d", "c")),
        ),
    )
    page = msgspec.structs.replace(info((0, 4)), next_entry_id=6)

    found = copy_of(changed, "d", page)

    assert (found.holes, found.unknown_from) == ((), 6)


def test_a_pd_ledger_has_no_cursor() -> None:
    found = copy_of(ledger(LedgerType.PD_JOURNAL), "d", info((10, 12)))

    assert (found.last_entry_id, found.last_add_synced, found.unsynced_count) == (12, None, None)
    assert found.holes == ()


def test_what_is_not_known_has_a_reason() -> None:
    vd = ledger(LedgerType.VD_JOURNAL)
    assert copy_of(vd, "a", None) == LedgerCopy(bookie_id="a", why="no answer in time")
    assert copy_of(vd, "a", info(is_known=False)).why == "holds nothing of it"
    assert "no answer within 5 s" in copy_of(vd, "a", RequestTimeoutError("bookie a", 5)).why


def test_a_striped_ledger_counts_what_is_due_and_not_synced() -> None:
    made = metadata_maker(ledger_type=LedgerType.VD_JOURNAL)(7)
    striped = msgspec.structs.replace(
        made, ensemble_size=4, write_quorum_size=2, fragments=(Fragment(0, ("a", "b", "c", "d")),)
    )

    found = copy_of(striped, "a", info((0, 0), (3, 4), (7, 8), synced=3))

    assert found.unsynced_count == 3  # 4, 7 and 8


@pytest.mark.parametrize(
    ("copies", "count"),
    [
        ([info((0, 5)), info((0, 8), (10, 11))], 6),
        ([info((0, 5)), info(is_known=False)], 0),
        ([info((0, 5)), None], None),
        ([info((0, 7)), None], 2),
    ],
)
def test_a_recovery_left_out_what_bookies_have_after_the_end(
    copies: list[LedgerInfo | None], count: int | None
) -> None:
    closed = msgspec.structs.replace(
        ledger(LedgerType.VD_JOURNAL), state=LedgerState.CLOSED, last_entry_id=5, length=0
    )

    assert left_out_count(closed, [copy_of(closed, "a", one) for one in copies]) == count
