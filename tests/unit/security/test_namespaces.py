"""The rules of namespaces: paths, records and grants."""

import pytest

from zbk.errors import InvalidOptionError, NoSuchNamespaceError
from zbk.protocol.ledger.access import GRANT_COUNT_MAX, Right
from zbk.security.namespaces import (
    NAMESPACE_COUNT_MAX,
    Namespace,
    NamespaceTable,
    check,
    granted,
    named,
    revoked,
    with_namespace,
    without,
)

ORDERS = Namespace(path="orders", grants={"alice": (Right.APPEND, Right.READ)})
EUROPE = Namespace(path="orders/eu")
BOTH = (ORDERS, EUROPE)


def test_the_records_of_all_parts_of_a_path_count() -> None:
    table = NamespaceTable(BOTH)

    assert table.chain("orders/eu/2024") == [ORDERS, EUROPE]
    assert table.chain("orders") == [ORDERS]
    assert table.chain("order") == table.chain("ordersx/eu") == []
    assert table.grants("orders/us") == [ORDERS.grants]


def test_only_the_default_namespace_may_have_no_record() -> None:
    assert NamespaceTable().grants("default") is None
    assert NamespaceTable().grants("orders") == []
    assert NamespaceTable([Namespace(path="default")]).grants("default") == [{}]


def test_records_come_and_go_in_the_order_of_their_paths() -> None:
    made = with_namespace(with_namespace((), EUROPE), ORDERS)

    assert made == BOTH
    assert without(made, "orders") == (EUROPE,)
    with pytest.raises(InvalidOptionError, match="exists already"):
        with_namespace(made, ORDERS)
    with pytest.raises(NoSuchNamespaceError, match="zbk namespace add sales"):
        without(made, "sales")


def test_grants_grow_and_shrink() -> None:
    more = granted(BOTH, "orders/eu", "*", [Right.READ])
    less = revoked(more, "orders", "alice", [Right.APPEND])

    assert named(less, "orders/eu").grants == {"*": (Right.READ,)}
    assert named(less, "orders").grants == {"alice": (Right.READ,)}
    assert named(revoked(less, "orders", "alice", list(Right)), "orders").grants == {}
    with pytest.raises(NoSuchNamespaceError):
        granted(BOTH, "sales", "*", [Right.READ])


@pytest.mark.parametrize(
    "bad",
    [
        [Namespace(path="")],
        [Namespace(path="/orders")],
        [Namespace(path="orders/")],
        [Namespace(path="orders//eu")],
        [Namespace(path="x" * 129)],
        [ORDERS, ORDERS],
        [Namespace(path="a", grants={"": (Right.READ,)})],
        [Namespace(path="a", grants={"alice": ()})],
        [Namespace(path="a", grants={f"p{n}": (Right.READ,) for n in range(GRANT_COUNT_MAX + 1)})],
        [Namespace(path=f"n{n}") for n in range(NAMESPACE_COUNT_MAX + 1)],
    ],
    ids=lambda bad: bad[0].path[:10] or "empty",
)
def test_records_that_cannot_be_stored_are_refused(bad: list[Namespace]) -> None:
    with pytest.raises(InvalidOptionError):
        check(bad)
