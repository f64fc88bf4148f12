"""The list of ledgers from an id on, in both layouts."""

import pytest

from tests.support.made_ledgers import make_ledgers
from tests.support.memory_store import MemoryTree
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.values import Layout, LedgerLayout

IDS = (0, 7, 9_999, 10_000, 10_001, 123_456_789, 2**31 - 2, 2**31 - 1, 2**40, 10**18)


@pytest.mark.parametrize("layout", list(LedgerLayout))
def test_a_list_begins_at_any_id(layout: LedgerLayout) -> None:
    store = MemoryTree().open_session()
    try:
        initialise(store, Layout(ledger_layout=layout))
        make_ledgers(store, IDS)
        ledgers = LedgerStore(store)
        for first_id in (*IDS, *(one + 1 for one in IDS), 5_000, 10**18 + 5):
            assert list(ledgers.list(first_id)) == [one for one in IDS if one >= first_id]
    finally:
        store.close()
