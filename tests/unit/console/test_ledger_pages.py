"""Rows of a ledger's page."""

import pytest

from tests.support.synthetic_store import SyntheticStore
from zbk.console.ledger_pages import bookie_row
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.wire.messages import LedgerInfo

ANSWER = LedgerInfo(is_known=True, lac=5, last_entry_id=9, last_add_synced=7, request_id=0)


@pytest.fixture
def ledger() -> LedgerMetadata:
    return LedgerStore(SyntheticStore(10, 3)).read(3)[0]


def test_the_lac_of_an_open_ledger_is_that_of_the_bookie(ledger: LedgerMetadata) -> None:
    row = bookie_row("b", ANSWER, ledger, is_registered=True)
    assert (row["lac"], row["last_entry_id"], row["at_risk_count"]) == (5, 9, 2)


@pytest.mark.parametrize("end", [-1, 9])
def test_the_lac_of_a_closed_ledger_is_its_end(ledger: LedgerMetadata, end: int) -> None:
    row = bookie_row("b", ANSWER, ledger.with_closed(end, 0), is_registered=True)
    assert (row["lac"], row["why"]) == (end, "")


def test_a_bookie_without_an_answer_has_no_figures(ledger: LedgerMetadata) -> None:
    closed = ledger.with_closed(9, 0)
    gone = bookie_row("b", None, closed, is_registered=False)
    assert (gone["lac"], gone["why"]) == (None, "not registered")
    empty = bookie_row("b", LedgerInfo(is_known=False, request_id=0), closed, is_registered=True)
    assert (empty["lac"], empty["why"]) == (None, "holds nothing of it")
