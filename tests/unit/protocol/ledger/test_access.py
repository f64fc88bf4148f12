"""Owner, namespace and grants in the metadata of a ledger."""

import msgspec
import pytest

from tests.support.ledger_states import CLOSED, IN_RECOVERY, OPEN
from zbk.errors import IllegalTransitionError, InvalidOptionError
from zbk.protocol.ledger.access import (
    PLAIN,
    LedgerAccess,
    Right,
    check_namespace,
    grants_of,
    with_grant,
    without_grant,
)
from zbk.protocol.ledger.formats import METADATA_FORMAT_VERSION
from zbk.protocol.ledger.metadata import (
    LedgerMetadata,
    check_transition,
)

HERS = OPEN.owned(LedgerAccess(owner="alice", namespace="orders"))
BOB_READS = {"bob": (Right.READ,)}


def test_a_plain_ledger_belongs_to_the_default_namespace_and_to_nobody() -> None:
    assert OPEN.known_access == PLAIN == LedgerAccess(owner="", namespace="default", grants={})
    assert OPEN.format_version == 2


@pytest.mark.parametrize("before", [OPEN, IN_RECOVERY, CLOSED, HERS], ids=lambda one: one.state)
def test_grants_change_in_any_state(before: LedgerMetadata) -> None:
    after = before.with_grants(BOB_READS)

    assert after.known_access.grants == BOB_READS
    assert after.known_access.owner == before.known_access.owner
    assert after.format_version == METADATA_FORMAT_VERSION == 4
    assert after.with_grants({}).known_access.grants == {}


@pytest.mark.parametrize(
    "access", [LedgerAccess(owner="bob", namespace="orders"), LedgerAccess(owner="alice")], ids=str
)
def test_owner_and_namespace_never_change(access: LedgerAccess) -> None:
    with pytest.raises(IllegalTransitionError, match="owner and its namespace never change"):
        check_transition(HERS, msgspec.structs.replace(HERS, access=access))


def test_an_access_is_not_lost() -> None:
    owned = OPEN.with_grants(BOB_READS)
    plain = msgspec.structs.replace(owned, access=msgspec.UNSET, format_version=2)

    with pytest.raises(IllegalTransitionError):
        check_transition(owned, plain)


@pytest.mark.parametrize(
    "fields",
    [
        {"access": PLAIN},
        {"format_version": 4},
        {"access": LedgerAccess(owner="a/b"), "format_version": 4},
        {"access": LedgerAccess(owner="*"), "format_version": 4},
        {"access": LedgerAccess(namespace="/x"), "format_version": 4},
        {"access": LedgerAccess(grants={"bob": ()}), "format_version": 4},
    ],
    ids=str,
)
def test_impossible_accesses_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(IllegalTransitionError):
        msgspec.structs.replace(OPEN, **fields)


def test_grants_are_made_from_names() -> None:
    made = grants_of({"bob": {"read", "append"}, "*": ["read"]})

    assert made == {"bob": (Right.APPEND, Right.READ), "*": (Right.READ,)}
    wrong: list[dict[str, list[str]]] = [{"bob": ["write"]}, {"bob": []}, {"b b": ["read"]}]
    for bad in wrong:
        with pytest.raises(InvalidOptionError):
            grants_of(bad)


def test_a_grant_grows_and_shrinks() -> None:
    more = with_grant(BOB_READS, "bob", [Right.APPEND, Right.READ])

    assert more == {"bob": (Right.APPEND, Right.READ)}
    assert without_grant(more, "bob", [Right.READ]) == {"bob": (Right.APPEND,)}
    assert without_grant(more, "bob", list(Right)) == without_grant({}, "bob", [Right.READ]) == {}


@pytest.mark.parametrize("path", ["orders", "orders/eu", "a.b-c_d/9"])
def test_a_namespace_is_a_path(path: str) -> None:
    assert check_namespace(path) == path
