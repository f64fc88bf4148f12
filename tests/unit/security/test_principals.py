"""The rules of principals: names, keys and roles."""

import pytest

from zbk.errors import InvalidOptionError, NoSuchPrincipalError
from zbk.security.principals import (
    PRINCIPAL_COUNT_MAX,
    KeyTable,
    Principal,
    check,
    named,
    with_key,
    with_roles,
    without,
    without_key,
)

OLD, NEW, OTHER = "a" * 40, "b" * 40, "c" * 40
ALICE = Principal(name="alice", keys=(OLD,), roles=("operator",))
BOOKIES = Principal(name="bookies", keys=(OTHER,), roles=("bookie",))
BOTH = (ALICE, BOOKIES)


def test_a_key_is_rotated_without_a_moment_without_one() -> None:
    both = with_key(BOTH, "alice", NEW)
    after = without_key(both, "alice", OLD)

    assert named(both, "alice").keys == (OLD, NEW)
    assert named(after, "alice") == Principal(name="alice", keys=(NEW,), roles=("operator",))
    assert OLD in KeyTable(both)
    assert OLD not in KeyTable(after)


def test_a_third_key_waits_until_one_is_removed() -> None:
    both = with_key(BOTH, "alice", NEW)

    with pytest.raises(InvalidOptionError, match="remove an old one"):
        with_key(both, "alice", "d" * 40)


def test_a_key_belongs_to_one_principal() -> None:
    with pytest.raises(InvalidOptionError, match="belongs to alice"):
        with_key(BOTH, "mallory", OLD)


def test_adding_a_key_again_changes_nothing() -> None:
    assert with_key(BOTH, "alice", OLD) == BOTH


def test_a_principal_without_its_last_key_is_gone() -> None:
    assert without_key(BOTH, "alice", OLD) == (BOOKIES,)
    assert without(BOTH, "alice") == (BOOKIES,)


def test_roles_are_granted_and_taken() -> None:
    granted = with_roles(BOTH, "alice", ["auditor", "operator"])
    taken = with_roles(granted, "alice", ["operator"], is_revoked=True)

    assert named(granted, "alice").roles == ("operator", "auditor")
    assert named(taken, "alice").roles == ("auditor",)


def test_the_principals_are_in_the_order_of_their_names() -> None:
    made = with_key(with_key((), "zoe", OLD), "anna", NEW)

    assert [one.name for one in made] == ["anna", "zoe"]


def test_who_is_not_there_is_named() -> None:
    with pytest.raises(NoSuchPrincipalError, match="zoe"):
        without(BOTH, "zoe")
    with pytest.raises(NoSuchPrincipalError, match="zoe"):
        without_key(BOTH, "zoe", OLD)
    with pytest.raises(NoSuchPrincipalError, match="zoe"):
        with_roles(BOTH, "zoe", ["operator"])


@pytest.mark.parametrize(
    "principals",
    [
        (Principal(name="a", keys=()),),
        (Principal(name="a", keys=(OLD, OLD)),),
        (Principal(name="a", keys=("no key",)),),
        (Principal(name="a b", keys=(OLD,)),),
        (Principal(name="a", keys=(OLD,), roles=("king",)),),
        (Principal(name="a", keys=(OLD,), roles=("bookie", "bookie")),),
        (Principal(name="a", keys=(OLD,)), Principal(name="a", keys=(NEW,))),
        (Principal(name="a", keys=(OLD,)), Principal(name="b", keys=(OLD,))),
        tuple(Principal(name=f"p{n}", keys=(f"{n:040d}",)) for n in range(PRINCIPAL_COUNT_MAX + 1)),
    ],
    ids=["none", "twice", "form", "name", "role", "roles", "names", "shared", "many"],
)
def test_these_are_no_principals(principals: tuple[Principal, ...]) -> None:
    with pytest.raises(InvalidOptionError):
        check(principals)


def test_a_role_that_does_not_exist_is_not_taken_either() -> None:
    with pytest.raises(InvalidOptionError, match="operator, bookie, auditor"):
        with_roles(BOTH, "alice", ["king"], is_revoked=True)
