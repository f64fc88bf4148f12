"""Principals: the names, keys and roles of those that a cluster accepts.

Words: a *principal* is a person, a program or a process, by name. It has one key, or two while one
replaces the other. A *role* is a right in the whole cluster. A connection is *admitted* if its key
is that of a principal.

Invariants, checked in ``check``:
  * names differ, and no key belongs to two principals;
  * a principal has one or two keys, and each of its roles once.

Pure. The record is kept by ``zbk.metadata.records.principals``.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from zbk.errors import InvalidOptionError, NoSuchPrincipalError
from zbk.security.keys import check_name, is_key

ROLES: Final = ("operator", "bookie", "auditor")
"""The roles in a cluster: who administers it, who is part of it, who may look at all of it."""

KEY_COUNT_MAX: Final = 2
"""The keys of one principal: the present one, and the next or the last one."""

PRINCIPAL_COUNT_MAX: Final = 2_000
"""All principals are one record of the metadata store, which has less than a megabyte."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """One principal."""

    name: str
    keys: tuple[str, ...]  # public, Z85
    roles: tuple[str, ...] = ()


class KeyTable:
    """The principals by key: whom a bookie admits. Immutable, so that any thread may read it."""

    __slots__ = ("_by_key",)

    def __init__(self, principals: Iterable[Principal] = ()) -> None:
        self._by_key = {key: one for one in principals for key in one.keys}

    def find(self, key: str) -> Principal | None:
        """Return the principal with a key; ``None`` if there is none."""
        return self._by_key.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        return len(self._by_key)


def check(principals: tuple[Principal, ...]) -> None:
    """Check the invariants.

    Raises:
        InvalidOptionError: one does not hold.
    """
    if len(principals) > PRINCIPAL_COUNT_MAX:
        why = f"a cluster has {PRINCIPAL_COUNT_MAX} principals at most"
        raise InvalidOptionError("principals", len(principals), why)
    if len({one.name for one in principals}) < len(principals):
        raise InvalidOptionError("principals", len(principals), "two have the same name")
    for one in principals:
        check_name(one.name)
        _check_roles(one.roles)
    _check_keys(principals)


def _check_roles(roles: tuple[str, ...]) -> None:
    for role in roles:
        if role not in ROLES:
            raise InvalidOptionError("role", role, f"give one of {', '.join(ROLES)}")
    if len(set(roles)) < len(roles):
        raise InvalidOptionError("role", ", ".join(roles), "each role once")


def _check_keys(principals: tuple[Principal, ...]) -> None:
    owners: dict[str, str] = {}
    for one in principals:
        if not 1 <= len(one.keys) <= KEY_COUNT_MAX or len(set(one.keys)) < len(one.keys):
            why = f"a principal has 1 to {KEY_COUNT_MAX} keys; remove an old one first"
            raise InvalidOptionError("keys", one.name, why)
        for key in one.keys:
            if not is_key(key):
                raise InvalidOptionError("key", key[:40], "a key is 40 characters of Z85")
            if key in owners:
                raise InvalidOptionError("key", key, f"it belongs to {owners[key]} already")
            owners[key] = one.name


def with_key(
    principals: tuple[Principal, ...], name: str, key: str, roles: Iterable[str] = ()
) -> tuple[Principal, ...]:
    """Return the principals with a new one, or with one more key of an existing one.

    The roles of an existing principal grow by ``roles``. A key that it has already changes nothing.

    Raises:
        InvalidOptionError: the key belongs to another principal, or this one has two already.

    Examples:
        >>> key, next_key = "a" * 40, "b" * 40
        >>> made = with_key((), "alice", key, ["operator"])
        >>> [(one.name, len(one.keys), one.roles) for one in with_key(made, "alice", next_key)]
        [('alice', 2, ('operator',))]
    """
    found = next((one for one in principals if one.name == name), Principal(name=name, keys=()))
    keys = found.keys if key in found.keys else (*found.keys, key)
    changed = Principal(name=name, keys=keys, roles=_united(found.roles, roles))
    return _replaced(principals, changed)


def without_key(principals: tuple[Principal, ...], name: str, key: str) -> tuple[Principal, ...]:
    """Return the principals without one key; a principal with no key left is removed.

    Raises:
        NoSuchPrincipalError: there is no principal of this name.
        InvalidOptionError: it has no such key.
    """
    found = named(principals, name)
    if key not in found.keys:
        raise InvalidOptionError("key", key, f"it is no key of {name}")
    if found.keys == (key,):
        return without(principals, name)
    keys = tuple(one for one in found.keys if one != key)
    return _replaced(principals, msgspec.structs.replace(found, keys=keys))


def without(principals: tuple[Principal, ...], name: str) -> tuple[Principal, ...]:
    """Return the principals without one of them.

    Raises:
        NoSuchPrincipalError: there is no principal of this name.
    """
    found = named(principals, name)
    return tuple(one for one in principals if one is not found)


def with_roles(
    principals: tuple[Principal, ...], name: str, roles: Iterable[str], *, is_revoked: bool = False
) -> tuple[Principal, ...]:
    """Return the principals with roles granted to one of them, or taken from it.

    Raises:
        NoSuchPrincipalError: there is no principal of this name.
        InvalidOptionError: there is no such role.
    """
    found, wanted = named(principals, name), tuple(roles)
    _check_roles(wanted)
    kept = tuple(role for role in found.roles if role not in wanted)
    changed = kept if is_revoked else _united(found.roles, wanted)
    return _replaced(principals, msgspec.structs.replace(found, roles=changed))


def named(principals: tuple[Principal, ...], name: str) -> Principal:
    """Return the principal of a name.

    Raises:
        NoSuchPrincipalError: there is none.
    """
    for one in principals:
        if one.name == name:
            return one
    raise NoSuchPrincipalError(name)


def _replaced(principals: tuple[Principal, ...], changed: Principal) -> tuple[Principal, ...]:
    others = [one for one in principals if one.name != changed.name]
    result = tuple(sorted([*others, changed], key=lambda one: one.name))
    check(result)
    return result


def _united(roles: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*roles, *more)))
