"""Namespaces: paths that ledgers belong to, with grants for all of them.

A ledger in ``orders/eu`` is subject to the records of ``orders`` and of ``orders/eu``, as far as
they exist; one of them must. Limits of ledgers and bytes are kept apart, because they change with
each ledger (``zbk.metadata.records.namespace_usage``).

Pure. The record is kept by ``zbk.metadata.records.namespaces``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from zbk.errors import InvalidOptionError, NoSuchNamespaceError
from zbk.protocol.ledger.access import (
    DEFAULT_NAMESPACE,
    Grants,
    Right,
    check_grants,
    check_namespace,
    with_grant,
    without_grant,
)

NAMESPACE_COUNT_MAX: Final = 1_000
"""All namespaces are one record of the metadata store, which has less than a megabyte."""


def parts_of(path: str) -> Sequence[str]:
    """Return the paths of the namespaces that a ledger with a path belongs to, the shortest first.

    >>> parts_of("orders/eu/2024")
    ['orders', 'orders/eu', 'orders/eu/2024']
    """
    names = path.split("/")
    return ["/".join(names[: count + 1]) for count in range(len(names))]


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one namespace."""

    path: str
    grants: Grants = {}


class NamespaceTable:
    """The records by path. Immutable, so that any thread may read it."""

    __slots__ = ("_by_path",)

    def __init__(self, namespaces: Iterable[Namespace] = ()) -> None:
        self._by_path = {one.path: one for one in namespaces}

    def chain(self, path: str) -> Sequence[Namespace]:
        """Return the records that count for a path, the shortest path first.

        >>> table = NamespaceTable([Namespace(path="a"), Namespace(path="a/b/c")])
        >>> [one.path for one in table.chain("a/b/c")], [one.path for one in table.chain("ab")]
        (['a', 'a/b/c'], [])
        """
        return [self._by_path[one] for one in parts_of(path) if one in self._by_path]

    def grants(self, path: str) -> Sequence[Grants] | None:
        """Return the grants that count for a path; ``None``: the default one has no record."""
        chain = self.chain(path)
        if not chain and path == DEFAULT_NAMESPACE:
            return None
        return [one.grants for one in chain]


def check(namespaces: Sequence[Namespace]) -> None:
    """Check that the records can be stored.

    Raises:
        InvalidOptionError: they cannot.
    """
    if len(namespaces) > NAMESPACE_COUNT_MAX:
        why = f"a cluster has {NAMESPACE_COUNT_MAX} at most"
        raise InvalidOptionError("namespaces", len(namespaces), why)
    if len({one.path for one in namespaces}) < len(namespaces):
        raise InvalidOptionError("namespaces", len(namespaces), "two have the same path")
    for one in namespaces:
        check_namespace(one.path)
        check_grants(one.grants)


def with_namespace(namespaces: Sequence[Namespace], new: Namespace) -> tuple[Namespace, ...]:
    """Return the records with a new one.

    Raises:
        InvalidOptionError: there is one with its path.
    """
    if any(one.path == new.path for one in namespaces):
        raise InvalidOptionError("namespace", new.path, "it exists already")
    return tuple(sorted([*namespaces, new], key=lambda one: one.path))


def without(namespaces: Sequence[Namespace], path: str) -> tuple[Namespace, ...]:
    """Return the records without one.

    Raises:
        NoSuchNamespaceError: there is none with this path.
    """
    found = named(namespaces, path)
    return tuple(one for one in namespaces if one is not found)


def granted(
    namespaces: Sequence[Namespace], path: str, name: str, rights: Iterable[Right]
) -> tuple[Namespace, ...]:
    """Return the records, in one of which a principal has more rights.

    Raises:
        NoSuchNamespaceError: there is none with this path.
    """
    return _changed(namespaces, path, lambda grants: with_grant(grants, name, rights))


def revoked(
    namespaces: Sequence[Namespace], path: str, name: str, rights: Iterable[Right]
) -> tuple[Namespace, ...]:
    """Return the records, in one of which a principal has fewer rights.

    Raises:
        NoSuchNamespaceError: there is none with this path.
    """
    return _changed(namespaces, path, lambda grants: without_grant(grants, name, rights))


def named(namespaces: Iterable[Namespace], path: str) -> Namespace:
    """Return the record with a path.

    Raises:
        NoSuchNamespaceError: there is none.
    """
    for one in namespaces:
        if one.path == path:
            return one
    raise NoSuchNamespaceError(path)


def _changed(
    namespaces: Sequence[Namespace], path: str, change: Callable[[Grants], Grants]
) -> tuple[Namespace, ...]:
    found = named(namespaces, path)
    changed = msgspec.structs.replace(found, grants=change(found.grants))
    return tuple(changed if one is found else one for one in namespaces)
