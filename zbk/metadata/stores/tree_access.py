"""The access lists of a whole tree: which are not as the rule wants them, and making them so.

The record of the members is written first and the root follows, then the rest, parents before
children. Each step leaves a tree that works for the members: a list that is not converted yet is
open, or has the operators of before, to whom the caller belongs. So a conversion that was
interrupted is simply run again. Nodes that processes with the former members create meanwhile are
found by the next pass. The last pass begins ``SETTLE_S`` after one that changed nothing: by then
the processes that are connected have heard of the new members.

Any thread; calls block.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from threading import Event
from typing import Final, Protocol

import msgspec

from zbk.errors import InvalidOptionError, NoNodeError
from zbk.metadata.stores.node_rights import (
    Grant,
    Members,
    check_members,
    is_open,
    kind_of,
    rights_on,
)

PASS_COUNT_MAX: Final = 6
SETTLE_S: Final = 1.0


def _settle() -> None:
    Event().wait(SETTLE_S)


class Tree(Protocol):
    """The part of a ``ZooKeeperStore`` that this module uses."""

    @property
    def own_identity(self) -> str:
        """The identity of this process; "" without a user."""

    @property
    def members(self) -> Members | None:
        """The members of the tree."""

    def change_members(self, members: Members) -> None:
        """Write the record of the members."""

    def grants(self, path: str) -> tuple[Grant, ...]:
        """Return who may do what with a node."""

    def change_grants(self, path: str, grants: tuple[Grant, ...]) -> None:
        """Replace the access list of a node."""

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children."""


class KindCount(msgspec.Struct, kw_only=True):
    """The nodes of one kind (``node_rights.KINDS``), counted."""

    kind: str
    node_count: int = 0
    open_count: int = 0  # everyone has a right
    changed_count: int = 0  # of a dry run: that would change


def nodes_of(tree: Tree) -> Iterator[tuple[str, tuple[Grant, ...]]]:
    """Yield all nodes with their access lists, those near the root first.

    Nodes may come and go meanwhile.

    Raises:
        MetadataAccessError: this process may not read all.
        MetadataUnavailableError: the store does not answer.
    """
    waiting = deque(["/"])
    while waiting:
        path = waiting.popleft()
        with suppress(NoNodeError):
            yield path, tree.grants(path)
            prefix = path.rstrip("/")
            waiting += [f"{prefix}/{name}" for name in tree.children(path)]


def check_tree(tree: Tree, members: Members, node_count_max: int | None = None) -> list[KindCount]:
    """Return how many nodes of each kind are open, and have other rights than the rule's.

    ``node_count_max``: look only at the first nodes of the tree.
    """
    return _pass(tree, members, is_dry=True, node_count_max=node_count_max)


def secure_tree(
    tree: Tree, members: Members, settle: Callable[[], None] = _settle
) -> list[KindCount]:
    """Give every node the rights of the rule; return what was changed. Calling again is safe.

    ``settle`` waits until other processes have heard of the members.

    Raises:
        InvalidOptionError: the members are malformed, or this process is no operator.
        MetadataAccessError: this process may not change a list.
        MetadataUnavailableError: the store does not answer; some lists are changed.
    """
    check_members(members)
    if tree.own_identity not in members.operators:
        why = f"this process must stay one: add {tree.own_identity or 'the user of this process'}"
        raise InvalidOptionError("operator", ", ".join(members.operators), why)
    if tree.members != members:
        tree.change_members(members)
    found: dict[str, KindCount] = {}
    is_settled = False
    for _ in range(PASS_COUNT_MAX):
        counts = _pass(tree, members, is_dry=False)
        for one in counts:
            before = found.get(one.kind)
            if before is None:
                found[one.kind] = msgspec.structs.replace(one)
            else:
                before.changed_count += one.changed_count
        if not any(one.changed_count for one in counts):
            if is_settled:
                break
            settle()
            is_settled = True
    return list(found.values())


def _pass(
    tree: Tree, members: Members, *, is_dry: bool, node_count_max: int | None = None
) -> list[KindCount]:
    counts: dict[str, KindCount] = {}
    for path, grants in islice(nodes_of(tree), node_count_max):
        kind = kind_of(path).name
        count = counts.setdefault(kind, KindCount(kind=kind))
        count.node_count += 1
        count.open_count += is_open(grants)
        wanted = rights_on(path, members)
        if grants != wanted:
            count.changed_count += 1
            if not is_dry:
                with suppress(NoNodeError):
                    tree.change_grants(path, wanted)
    return list(counts.values())
