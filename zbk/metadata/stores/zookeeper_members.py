"""The members of a tree in ZooKeeper as one store knows them, and the access lists from them.

A store without a user, and a tree without members, make nodes that are open to everyone, as
ZooKeeper does by default. A store with a user that makes the root of a tree, or finds it empty,
becomes its operator. An existing tree stays as it is until ``zbk cluster secure``, so that
processes can get their users one after another.

Any thread; ``take`` runs in the callback thread.
"""

from typing import Final

from kazoo import security

from zbk.errors import CorruptRecordError
from zbk.metadata.stores.access import StoreUser
from zbk.metadata.stores.callbacks import LOG
from zbk.metadata.stores.node_rights import (
    ACCESS,
    Grant,
    Members,
    decode_members,
    in_order,
    rights_on,
)
from zbk.metadata.stores.store import Node

_BITS: Final = {
    "r": security.Permissions.READ,
    "w": security.Permissions.WRITE,
    "c": security.Permissions.CREATE,
    "d": security.Permissions.DELETE,
    "a": security.Permissions.ADMIN,
}


class TreeMembers:
    """The members of a tree; ``None`` while it has none."""

    def __init__(self, user: StoreUser | None) -> None:
        self._user = user
        self.members: Members | None = None

    @property
    def own_identity(self) -> str:
        """The identity of this process; "" without a user."""
        return "" if self._user is None else self._user.identity

    @property
    def of_own(self) -> Members:
        """Members of a new tree: this process alone. It has a user."""
        return Members(operators=(self.own_identity,))

    def take(self, node: Node | None) -> bool:
        """Learn the record, as a watch found it; return whether the members changed.

        A damaged one is logged and changes nothing.
        """
        before = self.members
        try:
            self.members = None if node is None else decode_members(node.value)
        except CorruptRecordError as error:
            LOG.error("metadata.members_damaged", "%(error)s; the former ones stay", error=error)
        return self.members != before

    def list_for(self, path: str) -> list[security.ACL] | None:
        """Return the access list of a new node at ``path``; ``None``: open to everyone."""
        if self._user is None or self.members is None:
            return None
        return to_list(rights_on(path, self.members))

    def list_above(self) -> list[security.ACL] | None:
        """Return the access list of a new node above the root: for this process alone."""
        return to_list(rights_on("/..", self.of_own)) if self._user else None

    def why_refused(self, path: str) -> str:
        """Return the text of an error for a node that this process may not use so."""
        if self._user is None:
            return (
                f"{path}: refused, because this process has no user: give metadata_user and "
                "metadata_password_file in [security], or ZBK_METADATA_USER and "
                "ZBK_METADATA_PASSWORD_FILE"
            )
        role = f"{ACCESS} names the members: see `zbk cluster secure --dry-run`"
        return f"{path}: refused to {self._user.auth} user {self._user.name!r}; {role}"


def to_list(grants: tuple[Grant, ...]) -> list[security.ACL]:
    """Return grants as kazoo has them."""
    found = []
    for one in grants:
        scheme, _, name = one.identity.partition(":")
        bits = sum(_BITS[letter] for letter in one.rights)
        found.append(security.ACL(bits, security.Id(scheme, name)))
    return found


def from_list(acls: list[security.ACL]) -> tuple[Grant, ...]:
    """Return grants from kazoo's. Several of one identity become one."""
    found: dict[str, set[str]] = {}
    for one in acls:
        rights = {letter for letter, bit in _BITS.items() if one.perms & bit}
        found.setdefault(f"{one.id.scheme}:{one.id.id}", set()).update(rights)
    return tuple(sorted(Grant(name, in_order(rights)) for name, rights in found.items()))
