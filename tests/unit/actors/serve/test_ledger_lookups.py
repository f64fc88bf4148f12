"""What the metadata store is asked of ledgers that are new at a bookie, and what is believed."""

from collections.abc import Iterator, Mapping

import pytest

from tests.support.hooked_store import HookedStore
from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryTree
from zbk.actors.serve.ledger_lookups import LedgerLookup
from zbk.durability.new_ledgers import KnownLedger
from zbk.errors import CorruptRecordError, MetadataUnavailableError, NoNodeError, NoSuchLedgerError
from zbk.metadata.paths import ledger_path
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.stores.store import Node
from zbk.metadata.values import LedgerLayout
from zbk.protocol.entry.words import LedgerType

KNOWN = KnownLedger(b"", LedgerType.PD_JOURNAL)


class LaggingStore(HookedStore):
    """A session whose reads, unless fresh, do not show some nodes yet; it notes what is read."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.lacking: set[str] = set()
        self.reads: list[tuple[str, bool]] = []

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        self.reads.append((path, is_fresh))
        if path in self.lacking and not is_fresh:
            raise NoNodeError(path, "not yet")
        return super().get(path, is_fresh=is_fresh)


@pytest.fixture
def tree() -> MemoryTree:
    return MemoryTree("lookups")


@pytest.fixture
def store(tree: MemoryTree) -> Iterator[LaggingStore]:
    made = LaggingStore(tree)
    initialise(made)
    yield made
    made.close()


@pytest.fixture
def ledgers(store: LaggingStore) -> LedgerStore:
    return LedgerStore(store)


def create(ledgers: LedgerStore, count: int) -> list[int]:
    return [ledgers.create(metadata_maker())[0].ledger_id for _ in range(count)]


def kinds(findings: Mapping[int, object]) -> dict[int, type]:
    return {ledger_id: type(found) for ledger_id, found in findings.items()}


def test_a_ledger_that_is_there_costs_one_read(store: LaggingStore, ledgers: LedgerStore) -> None:
    (ledger_id,) = create(ledgers, 1)
    lookup = LedgerLookup(ledgers)
    store.reads.clear()

    assert lookup.find([ledger_id]) == {ledger_id: KNOWN}

    assert [is_fresh for _path, is_fresh in store.reads] == [False]


def test_a_ledger_that_this_follower_lacks_yet_is_found(
    store: LaggingStore, ledgers: LedgerStore
) -> None:
    ids = create(ledgers, 3)
    store.lacking = {ledger_path(ids[1], LedgerLayout.HIERARCHICAL), "/idgen"}

    assert LedgerLookup(ledgers).find(ids) == dict.fromkeys(ids, KNOWN)


def test_one_look_at_the_counter_refuses_all_ids_that_no_ledger_has_had(
    store: LaggingStore, ledgers: LedgerStore
) -> None:
    create(ledgers, 2)
    store.reads.clear()

    findings = LedgerLookup(ledgers).find([*range(2, 52)])

    assert set(kinds(findings).values()) == {NoSuchLedgerError}
    assert len(findings) == 50
    assert [is_fresh for _path, is_fresh in store.reads] == [False, True]


def test_a_deleted_ledger_is_absent(ledgers: LedgerStore) -> None:
    deleted, kept = create(ledgers, 2)
    ledgers.delete(deleted)

    findings = LedgerLookup(ledgers).find([deleted, kept])

    assert kinds(findings) == {deleted: NoSuchLedgerError, kept: KnownLedger}


def test_a_store_that_does_not_answer_says_neither_yes_nor_no(
    store: LaggingStore, ledgers: LedgerStore
) -> None:
    ids = create(ledgers, 3)
    lookup = LedgerLookup(ledgers)
    store.reads.clear()
    store.fail_next(1)

    findings = lookup.find(ids)

    assert set(kinds(findings).values()) == {MetadataUnavailableError}
    assert len(store.reads) == 1  # nor would it answer for the others
    assert lookup.find(ids) == dict.fromkeys(ids, KNOWN)


def test_damaged_metadata_are_those_of_one_ledger(
    store: LaggingStore, ledgers: LedgerStore
) -> None:
    damaged, whole = create(ledgers, 2)
    path = ledger_path(damaged, LedgerLayout.HIERARCHICAL)
    store.set(path, b"not metadata", 0)

    findings = LedgerLookup(ledgers).find([damaged, whole])

    assert kinds(findings) == {damaged: CorruptRecordError, whole: KnownLedger}
