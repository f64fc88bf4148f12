"""Positions and lists of logs: order, text, and what may change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.errors import (
    BusyError,
    IllegalTransitionError,
    InvalidOptionError,
    LogTruncatedError,
)
from zbk.protocol.entry.words import ENTRY_ID_MAX, LEDGER_ID_MAX
from zbk.protocol.log.metadata import LEDGER_COUNT_MAX, LogMetadata
from zbk.protocol.log.position import LogPosition, LogRange

positions = st.builds(LogPosition, st.integers(0, LEDGER_ID_MAX), st.integers(0, ENTRY_ID_MAX))
LOG = LogMetadata(name="orders", log_id="1", created_ms=0, ledger_ids=(3, 5, 9), first_index=2)
EMPTY = LogMetadata(name="orders", log_id="1", created_ms=0)


@given(position=positions)
def test_a_position_reads_what_it_writes(position: LogPosition) -> None:
    assert LogPosition.parse(str(position)) == position


@given(first=positions, second=positions)
def test_positions_are_ordered_as_entries_are(first: LogPosition, second: LogPosition) -> None:
    assert (first < second) == (
        (first.ledger_id, first.entry_id) < (second.ledger_id, second.entry_id)
    )
    assert first < first.next


@pytest.mark.parametrize(
    "text", ["", "7", "7:", ":9", "7:-1", "-1:0", "7:9 ", "7:9:1", "a:b", f"{2**63}:0", "\u0667:1"]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError):
        LogPosition.parse(text)


def test_a_range_of_positions_is_a_sequence() -> None:
    found = LogRange(7, range(3, 6))

    assert list(found) == [LogPosition(7, 3), LogPosition(7, 4), LogPosition(7, 5)]
    assert found[-1] == LogPosition(7, 5)
    assert LogPosition(7, 4) in found
    assert found == LogRange(7, range(3, 6))
    assert not LogRange(7, range(0))


def test_ledgers_have_an_index_that_truncation_does_not_change() -> None:
    assert [LOG.place_of(LogPosition(i, 0)) for i in LOG.ledger_ids] == [2, 3, 4]
    assert [LOG.ledger_at(index) for index in (2, 3, 4, 5)] == [3, 5, 9, None]
    cut = LOG.without_first(2)
    assert (cut.ledger_ids, cut.first_index) == ((9,), 4)
    assert cut.ledger_at(4) == 9


def test_a_position_that_was_cut_off_is_told_from_one_that_never_was() -> None:
    with pytest.raises(LogTruncatedError) as caught:
        LOG.place_of(LogPosition(2, 8))
    assert str(caught.value) == "log 'orders' was truncated: 2:8 is gone, it begins at 3:0"
    with pytest.raises(LogTruncatedError):
        LOG.ledger_at(1)
    for ledger_id in (4, 10):
        with pytest.raises(InvalidOptionError):
            LOG.place_of(LogPosition(ledger_id, 0))


def test_ledgers_are_appended_with_ascending_ids() -> None:
    assert LOG.with_ledger(11).ledger_ids == (3, 5, 9, 11)
    assert EMPTY.with_ledger(0).last_ledger_id == 0
    for ledger_id in (9, 4):
        with pytest.raises(IllegalTransitionError):
            LOG.with_ledger(ledger_id)


def test_the_last_ledger_never_lies_before_a_position() -> None:
    assert LOG.ledgers_before(LogPosition(9, 7)) == (3, 5)
    assert LOG.ledgers_before(LogPosition(100, 0)) == (3, 5)
    assert LOG.ledgers_before(LogPosition(3, 5)) == ()
    assert EMPTY.ledgers_before(LogPosition(3, 5)) == ()


def test_a_log_has_a_limit() -> None:
    full = LogMetadata(
        name="orders", log_id="1", created_ms=0, ledger_ids=tuple(range(LEDGER_COUNT_MAX))
    )

    with pytest.raises(BusyError):
        full.with_ledger(LEDGER_COUNT_MAX)
