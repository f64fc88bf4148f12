"""The first use of a tree in ZooKeeper: its root, the nodes above it, and its members.

Any thread; calls block.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from kazoo.security import ACL

from zbk.errors import NodeExistsError, NoNodeError
from zbk.metadata.stores.node_rights import ACCESS, decode_members, encode_members
from zbk.metadata.stores.zookeeper_members import TreeMembers


class Connection(Protocol):
    """The part of a ``ZooKeeperConnection`` that this module uses."""

    members: TreeMembers

    def full(self, path: str) -> str:
        """Return a path with the root before it."""

    def read(self, path: str, start: Callable[[KazooClient], IAsyncResult]) -> Any:  # noqa: ANN401 - kazoo has no types
        """Read, and return kazoo's result."""

    def write(self, path: str, start: Callable[[KazooClient], IAsyncResult]) -> Any:  # noqa: ANN401 - kazoo has no types
        """Send a change, and return kazoo's result."""


def find_root(connection: Connection, root: str) -> None:
    """Find the root and the members, or make them.

    A process with a user becomes the operator of a tree that it makes, or that is empty.

    Raises:
        CorruptRecordError: the record of the members is damaged.
        MetadataAccessError: the server refuses this process.
        MetadataUnavailableError: it does not answer.
    """
    has_user = bool(connection.members.own_identity)
    try:
        _, status = connection.read("/", lambda client: client.get_async(root))
    except NoNodeError:
        _make_root(connection, root, has_user=has_user)
        return
    if has_user and not _read_members(connection) and status.numChildren == 0:
        _make_members(connection)
        acl = connection.members.list_for("/")
        connection.write("/", lambda client: client.set_acls_async(root, acl))


def _make_root(connection: Connection, root: str, *, has_user: bool) -> None:
    members = connection.members
    names = root[1:].split("/")
    for count in range(1, len(names)):
        above = "/" + "/".join(names[:count])
        if connection.read(above, partial(KazooClient.exists_async, path=above)) is None:
            _make(connection, above, members.list_above())
    if not has_user:
        _make(connection, root, None)
        return
    members.members = members.of_own
    _make(connection, root, members.list_for("/"))
    _make_members(connection)


def _make(connection: Connection, full: str, acl: list[ACL] | None) -> None:
    with suppress(NodeExistsError):
        connection.write("/", lambda client: client.create_async(full, acl=acl))


def _make_members(connection: Connection) -> None:
    """Make this process the operator of the tree, unless it has members."""
    members = connection.members
    members.members = members.of_own
    value, full = encode_members(members.of_own), connection.full(ACCESS)
    acl = members.list_for(ACCESS)
    try:
        connection.write(ACCESS, lambda client: client.create_async(full, value, acl=acl))
    except NodeExistsError:
        _read_members(connection)


def _read_members(connection: Connection) -> bool:
    """Learn the members of the tree; return whether there are any."""
    full = connection.full(ACCESS)
    try:
        value, _ = connection.read(ACCESS, lambda client: client.get_async(full))
    except NoNodeError:
        connection.members.members = None
        return False
    connection.members.members = decode_members(value)
    return True
