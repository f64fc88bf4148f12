"""What a bookie knows of rights: each order of changes, news, look-ups and requests.

The model has one ledger, whose grants change in the metadata store, the news of that, which the
bookie gets later, and look-ups, which read at one moment and arrive at another.
"""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.ledger.access import LedgerAccess, Right
from zbk.security.access_table import CHANGE_COUNT_MAX, AccessChanges, AccessTable
from zbk.security.namespaces import Namespace, NamespaceTable
from zbk.security.principals import KeyTable, Principal
from zbk.security.rights import APPEND, OPERATE, READ, RECOVER

ALICE = Principal(name="alice", keys=("a" * 40,))
BOB = Principal(name="bob", keys=("b" * 40,))
CAROL = Principal(name="carol", keys=("c" * 40,), roles=("bookie",))
KEYS = KeyTable((ALICE, BOB, CAROL))
[A], [B], [C] = ALICE.keys, BOB.keys, CAROL.keys
HERS = LedgerAccess(owner="alice")
SHARED = LedgerAccess(owner="alice", grants={"bob": (Right.READ,)})


def table(*namespaces: Namespace) -> AccessTable:
    return AccessTable(KEYS, NamespaceTable(namespaces))


class TrustingTable(AccessTable):
    """Believes each answer: the defect that the model must find."""

    def is_answer_stale(self) -> bool:
        return False


class Bookie:
    """The model: a metadata store, a bookie, and what is on the way between them."""

    def __init__(self, known: AccessTable) -> None:
        self.table = known
        self.history = [HERS]  # the access of ledger 7 after each change
        self.changes = AccessChanges()
        self.news_count = 0  # changes that the bookie has heard of
        self.is_asking = False
        self.read: LedgerAccess | None = None  # the answer on its way

    def step(self, name: str) -> None:
        if name == "change":
            self.history.append(SHARED if self.history[-1] == HERS else HERS)
            self.changes = self.changes.with_change(7)
        elif name == "hear":
            self.table.changed(self.changes.since(self.news_count))
            self.news_count = self.changes.count
        elif name == "ask" and not self.is_asking:
            self.is_asking = True
            self.table.asked([7])
        elif name == "read" and self.is_asking:
            self.read = self.history[-1]
        elif name == "answer" and self.read is not None:
            answer, self.read = self.read, None
            if self.table.is_answer_stale():
                self.table.asked([7])  # asked again
            else:
                self.table.learn(7, answer)
                self.is_asking = False
        elif name == "request":
            self.check()

    def check(self) -> None:
        """A decision follows from the grants as they were at, or after, the last news."""
        decided = self.table.decide(B, 7, READ)
        possible = {one == SHARED for one in self.history[self.news_count :]}
        assert decided is None or decided in possible


STEPS = ("change", "hear", "ask", "read", "answer", "request")


def run(known: AccessTable, names: tuple[str, ...]) -> None:
    bookie = Bookie(known)
    for name in names:
        bookie.step(name)
    bookie.check()


def test_no_order_of_events_outlives_a_revocation() -> None:
    for names in product(STEPS, repeat=6):
        run(table(), names)


@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_no_long_order_of_events_does(names: list[str]) -> None:
    run(table(), tuple(names))


def test_the_model_finds_a_table_that_believes_stale_answers() -> None:
    names = ("ask", "read", "change", "change", "hear", "answer")
    trusting = TrustingTable(KEYS, NamespaceTable())
    run(table(), names)
    run(trusting, names)  # the second change took the first one back

    with pytest.raises(AssertionError):
        run(TrustingTable(KEYS, NamespaceTable()), ("ask", "read", "change", "hear", "answer"))


# ------------------------------------------------------------------ decisions


def test_what_is_not_known_is_neither_yes_nor_no() -> None:
    known = table()

    assert known.decide(A, 7, APPEND) is None
    known.learn(7, SHARED)
    assert known.decide(A, 7, APPEND) is True
    assert known.decide(B, 7, APPEND) is False
    assert known.decide(B, 7, READ) is True


def test_a_role_needs_no_look_up_for_what_it_allows() -> None:
    known = table()

    assert known.decide(C, 7, RECOVER) is True
    assert known.decide(C, 7, APPEND) is None
    known.learn(7, HERS)
    assert known.decide(C, 7, APPEND) is False
    assert known.role_mask(C) & OPERATE == 0


def test_a_key_without_a_principal_has_no_right() -> None:
    known = table()
    known.learn(7, LedgerAccess())

    assert known.decide("z" * 40, 7, READ) is False
    assert known.decide("", 7, READ) is False
    assert (known.name_of("z" * 40), known.name_of(A)) == ("z" * 40, "alice")


def test_a_removed_principal_has_no_right_from_the_news_on() -> None:
    known = table()
    known.learn(7, HERS)
    assert known.decide(A, 7, APPEND) is True

    known.set_keys(KeyTable((BOB,)))

    assert known.decide(A, 7, APPEND) is False


def test_a_namespace_counts_from_the_news_on() -> None:
    known = table()
    known.learn(7, LedgerAccess(owner="alice", namespace="orders/eu"))
    assert known.decide(B, 7, READ) is False

    orders = Namespace(path="orders", grants={"bob": (Right.READ,)})
    known.set_namespaces(NamespaceTable([orders]))
    assert known.decide(B, 7, READ) is True

    known.set_namespaces(NamespaceTable())
    assert known.decide(B, 7, READ) is False


def test_ledgers_without_an_owner_are_open_until_the_default_namespace_has_a_record() -> None:
    known = table()
    known.learn(7, LedgerAccess())
    assert known.decide(B, 7, APPEND) is True

    known.set_namespaces(NamespaceTable([Namespace(path="default")]))

    assert known.decide(B, 7, APPEND) is False


def test_memory_is_bounded() -> None:
    known = AccessTable(KEYS, NamespaceTable(), access_count_max=3, decision_count_max=4)
    for ledger_id in range(100):
        known.learn(ledger_id, HERS)
        assert known.decide(A, ledger_id, APPEND) is True
        assert len(known.decisions) <= 4

    assert [known.decide(B, ledger_id, READ) for ledger_id in (96, 97, 99)] == [None, False, False]


def test_a_newer_access_replaces_a_decision() -> None:
    known = table()
    known.learn(7, SHARED)
    assert known.decide(B, 7, READ) is True

    known.learn(7, HERS)

    assert known.decide(B, 7, READ) is False


# ------------------------------------------------------------------ the record of changes


def test_the_record_says_what_changed_since() -> None:
    record = AccessChanges()
    for ledger_id in range(CHANGE_COUNT_MAX + 9):
        record = record.with_change(ledger_id)

    assert record.since(record.count) == ()
    assert record.since(record.count - 2) == (CHANGE_COUNT_MAX + 7, CHANGE_COUNT_MAX + 8)
    assert record.since(9) == record.ledger_ids
    assert record.since(8) is None  # it missed too many
    assert record.since(None) is None
    assert record.since(record.count + 1) is None  # of another store, or restored
