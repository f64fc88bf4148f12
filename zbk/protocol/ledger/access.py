"""Who may do what with a ledger: its owner, its namespace and its grants, as in its metadata.

Words: a *right* is one thing that a principal may do with a ledger. A *grant* gives rights to one
principal by name, or to ``*``, which is every principal of the cluster. The *owner* is the
principal that created the ledger; it has all rights. A *namespace* is a path such as ``orders/eu``
that a ledger gets at its creation; the grants of ``orders`` and of ``orders/eu`` count for it.

    right     what it is needed for
    -------   ----------------------------------------------------------------
    append    to add entries, to report a LAC, to sync
    read      to read entries and the LAC, to wait for a LAC
    recover   to fence a ledger and to write its last entries back; includes read
    delete    to delete a ledger
    admin     to change the grants of a ledger

Metadata without an access belong to the default namespace and have no owner: those of ledgers that
an older zbk made, or a client without a key.

The decision is made in ``zbk.security.rights``. Pure.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from zbk.errors import InvalidOptionError

EVERYONE: Final = "*"
"""In a grant: every principal of the cluster."""

DEFAULT_NAMESPACE: Final = "default"
"""The namespace of ledgers that were created without one."""

GRANT_COUNT_MAX: Final = 64
"""Grants of one ledger, or of one namespace."""

NAMESPACE_SIZE_MAX: Final = 128

_NAMESPACE: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII
)
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class Right(StrEnum):
    """One thing that a principal may do with a ledger."""

    APPEND = "append"
    READ = "read"
    RECOVER = "recover"
    DELETE = "delete"
    ADMIN = "admin"


Grants: TypeAlias = Mapping[str, tuple[Right, ...]]
"""Rights by the name of a principal, or by ``*``. The rights are in the order of ``Right``."""


class LedgerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The owner, the namespace and the grants of a ledger."""

    owner: str = ""  # name of a principal; "": none
    namespace: str = DEFAULT_NAMESPACE
    grants: Grants = {}


PLAIN: Final = LedgerAccess()
"""That of a ledger without an owner, in the default namespace."""


def check_access(access: LedgerAccess) -> str:
    """Return what is wrong with an access, or ""."""
    try:
        if access.owner:
            check_grantee(access.owner, is_everyone_allowed=False)
        check_namespace(access.namespace)
        check_grants(access.grants)
    except InvalidOptionError as error:
        return str(error)
    return ""


def problem_of_access(
    before: LedgerAccess | msgspec.UnsetType, after: LedgerAccess | msgspec.UnsetType
) -> str:
    """Return what is wrong with a change of an access, or "": only its grants change."""
    was, now = before or PLAIN, after or PLAIN
    if (was.owner, was.namespace) != (now.owner, now.namespace):
        return "its owner and its namespace never change"
    return "its access is not lost" if before and not after else ""


def check_namespace(path: str) -> str:
    """Return the path of a namespace.

    >>> check_namespace("orders/eu")
    'orders/eu'

    Raises:
        InvalidOptionError: no namespace can have it.
    """
    if len(path) > NAMESPACE_SIZE_MAX or _NAMESPACE.fullmatch(path) is None:
        why = (
            f"give up to {NAMESPACE_SIZE_MAX} characters: names of letters, digits and . _ -, "
            "with / between them"
        )
        raise InvalidOptionError("namespace", path[: NAMESPACE_SIZE_MAX + 1], why)
    return path


def check_grantee(name: str, *, is_everyone_allowed: bool = True) -> str:
    """Return the name of a principal, or ``*``.

    Raises:
        InvalidOptionError: it is neither.
    """
    if not (is_everyone_allowed and name == EVERYONE) and _PRINCIPAL.fullmatch(name) is None:
        why = "give the name of a principal, or * for all of them"
        raise InvalidOptionError("principal", name[:65], why)
    return name


def check_grants(grants: Grants) -> Grants:
    """Return grants that can be stored.

    Raises:
        InvalidOptionError: they are too many, empty, or not for principals.
    """
    if len(grants) > GRANT_COUNT_MAX:
        why = f"there are {GRANT_COUNT_MAX} at most; grant to *, or use a namespace"
        raise InvalidOptionError("grants", len(grants), why)
    for name, rights in grants.items():
        check_grantee(name)
        if not rights or len(set(rights)) < len(rights):
            why = "give each right once, and one at least"
            raise InvalidOptionError("grants", name, why)
    return grants


def grants_of(given: Mapping[str, Iterable[str]]) -> Grants:
    """Return grants from names of rights.

    >>> grants_of({"alice": ["read", "append"]})
    {'alice': (<Right.APPEND: 'append'>, <Right.READ: 'read'>)}

    Raises:
        InvalidOptionError: a name is that of no right or of no principal.
    """
    return check_grants({name: in_order(rights_named(rights)) for name, rights in given.items()})


def rights_named(names: Iterable[str]) -> frozenset[Right]:
    """Return the rights with these names.

    Raises:
        InvalidOptionError: there is no such right.
    """
    found = set()
    for name in names:
        try:
            found.add(Right(name))
        except ValueError as error:
            raise InvalidOptionError(
                "right", name[:40], f"give one of {', '.join(Right)}"
            ) from error
    return frozenset(found)


def in_order(rights: Iterable[Right]) -> tuple[Right, ...]:
    """Return rights in the order of ``Right``."""
    given = set(rights)
    return tuple(right for right in Right if right in given)


def with_grant(grants: Grants, name: str, rights: Iterable[Right]) -> Grants:
    """Return the grants with more rights for one principal.

    Raises:
        InvalidOptionError: there are too many grants.
    """
    united = in_order({*grants.get(name, ()), *rights})
    return check_grants(dict(sorted({**grants, name: united}.items())))


def without_grant(grants: Grants, name: str, rights: Iterable[Right]) -> Grants:
    """Return the grants without some rights of one principal; without any, it has no grant."""
    taken = set(rights)
    left = tuple(one for one in grants.get(name, ()) if one not in taken)
    others = {one: held for one, held in grants.items() if one != name}
    return dict(sorted({**others, name: left}.items())) if left else others
