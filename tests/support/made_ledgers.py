"""Metadata of ledgers that a test speaks of over the wire, without a client that creates them."""

from collections.abc import Iterable
from itertools import islice

from tests.support.ledgers import metadata_maker
from zbk.errors import NodeExistsError
from zbk.metadata.paths import ledger_path
from zbk.metadata.records.instance import read_layout
from zbk.metadata.stores.arguments import OPERATION_COUNT_MAX, parent_of
from zbk.metadata.stores.store import Create, MetadataStore
from zbk.metadata.values import encode
from zbk.protocol.entry.words import LedgerType


def make_ledgers(
    store: MetadataStore,
    ledger_ids: Iterable[int],
    ledger_type: LedgerType = LedgerType.PD_JOURNAL,
) -> None:
    """Make ledgers under these ids, with whatever key they are first shown."""
    layout = read_layout(store).ledger_layout
    left = iter(ledger_ids)
    while some := [*islice(left, OPERATION_COUNT_MAX)]:
        creates = [
            Create(ledger_path(one, layout), encode(metadata_maker(ledger_type=ledger_type)(one)))
            for one in some
        ]
        for parent in {parent_of(create.path) for create in creates}:
            try:
                store.create(parent, make_parents=True)
            except NodeExistsError:
                continue
        store.multi(creates)
