"""The decision who may do what, against a slow twin that reads like the handbook."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.ledger.access import EVERYONE, Grants, LedgerAccess, Right
from zbk.security.principals import ROLES, Principal
from zbk.security.rights import (
    ALL_RIGHTS,
    BITS,
    INSPECT,
    OPERATE,
    READ,
    RECOVER,
    ROLE_RIGHTS,
    STATUS,
    decide,
    rights_of,
)

NAMES = ("alice", "bob")
grants = st.dictionaries(
    st.sampled_from((*NAMES, EVERYONE)),
    st.sets(st.sampled_from(list(Right)), min_size=1).map(tuple),
)
principals = st.builds(
    Principal,
    name=st.sampled_from(NAMES),
    keys=st.just(()),
    roles=st.sets(st.sampled_from(ROLES)).map(tuple),
)
accesses = st.builds(LedgerAccess, owner=st.sampled_from(("", *NAMES)), grants=grants)
chains = st.none() | st.lists(grants, max_size=3)


def slow_twin(
    principal: Principal, right: Right, access: LedgerAccess, chain: list[Grants] | None
) -> bool:
    if "operator" in principal.roles:
        return True
    if "bookie" in principal.roles and right in {Right.READ, Right.RECOVER}:
        return True
    if access.owner == principal.name:
        return True
    enough = {right, Right.RECOVER} if right is Right.READ else {right}
    for given_grants in [access.grants, *(chain or [])]:
        for name, rights in given_grants.items():
            if name in {principal.name, EVERYONE} and enough & set(rights):
                return True
    return chain is None and access.owner == "" and right is not Right.ADMIN


@given(principals, st.sampled_from(list(Right)), accesses, chains)
def test_the_decision_is_that_of_the_slow_twin(
    principal: Principal, right: Right, access: LedgerAccess, chain: list[Grants] | None
) -> None:
    assert decide(principal, right, access, chain) is slow_twin(principal, right, access, chain)


@given(st.sampled_from(list(Right)), accesses, chains)
def test_a_key_without_a_principal_has_no_right(
    right: Right, access: LedgerAccess, chain: list[Grants] | None
) -> None:
    assert not decide(None, right, access, chain)


@given(principals, accesses, chains, grants)
def test_more_grants_take_no_right_away(
    principal: Principal, access: LedgerAccess, chain: list[Grants] | None, more: Grants
) -> None:
    before = rights_of(principal, access, chain)
    after = rights_of(principal, access, [*(chain or []), more])
    kept = before if chain is not None or access.owner else 0  # a record closes the default one

    assert after & kept == kept


@given(accesses, chains, st.sampled_from(list(Right)))
def test_a_grant_to_another_principal_is_none(
    access: LedgerAccess, chain: list[Grants] | None, right: Right
) -> None:
    carol = Principal(name="carol", keys=())
    hers = {"carol": (right,)}
    bob = Principal(name="bob", keys=())

    assert rights_of(bob, access, chain) == rights_of(bob, access, chain and [*chain, hers])
    assert decide(carol, right, access, [hers])


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_worth_the_same_everywhere(role: str) -> None:
    one = Principal(name="carol", keys=(), roles=(role,))

    assert rights_of(one, LedgerAccess(owner="alice"), []) == ROLE_RIGHTS[role]


def test_an_auditor_reads_no_entry_and_a_bookie_appends_none() -> None:
    assert not ROLE_RIGHTS["auditor"] & ALL_RIGHTS
    assert ROLE_RIGHTS["bookie"] & ALL_RIGHTS == READ | RECOVER
    assert not (ROLE_RIGHTS["auditor"] | ROLE_RIGHTS["bookie"]) & OPERATE
    assert all(mask & STATUS and mask & INSPECT for mask in ROLE_RIGHTS.values())


def test_each_right_has_a_bit_of_its_own() -> None:
    bits = [*BITS.values(), INSPECT, STATUS, OPERATE]

    assert len({*bits}) == len(bits) == sum(bit.bit_count() for bit in bits)
