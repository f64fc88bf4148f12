"""What a suspect slot means for the connection that its writer shares with others."""

import pytest

from zbk.errors import (
    BookieReadOnlyError,
    BookieUnavailableError,
    CorruptRecordError,
    DuplicateEntryError,
    EntryUnreadableError,
    MalformedMessageError,
    RequestTimeoutError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.write.events import SlotSuspect


@pytest.mark.parametrize(
    "error",
    [
        BookieReadOnlyError("b-1"),
        UnknownLedgerStateError(7, "b-1"),
        DuplicateEntryError(7, 3),
        EntryUnreadableError(7, 3, "damaged"),
        CorruptRecordError("index", 0, "damaged"),
    ],
)
def test_a_bookie_that_refuses_one_ledger_keeps_the_connection_of_others(error: ZbkError) -> None:
    assert not SlotSuspect(0, error).is_connection_broken


@pytest.mark.parametrize(
    "error",
    [
        BookieUnavailableError("b-1", "is silent"),
        RequestTimeoutError("add", 1_000),
        MalformedMessageError("nonsense"),
    ],
)
def test_a_connection_that_is_silent_or_talks_nonsense_is_made_anew(error: ZbkError) -> None:
    assert SlotSuspect(0, error).is_connection_broken
