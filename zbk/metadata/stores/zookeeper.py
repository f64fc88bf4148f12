"""The metadata store in ZooKeeper, for real clusters: ``zk://host:port[,host:port]/root``.

The server may end a session before the client can know (after a pause, or during a partition). So a
session is advice, and safety comes from fencing and versions.

Threads: those of ``ZooKeeperConnection``, and one that owns the watches and runs the callbacks.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
from kazoo import exceptions as kz
from kazoo.client import KazooClient, TransactionRequest
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat

from zbk.config import MetadataAccess
from zbk.errors import NodeExistsError, NoNodeError
from zbk.metadata.stores.access import own_access
from zbk.metadata.stores.arguments import (
    check_change,
    check_operations,
    check_path,
    check_value,
    parent_of,
)
from zbk.metadata.stores.callbacks import (
    LOG,
    NOTHING,
    CallbackThread,
    Reading,
    SessionListeners,
    children_reading,
    node_reading,
)
from zbk.metadata.stores.node_rights import ACCESS, Grant, Members, encode_members, rights_on
from zbk.metadata.stores.store import (
    Check,
    Create,
    Delete,
    Node,
    Operation,
    SessionState,
    SetValue,
    Watch,
)
from zbk.metadata.stores.zookeeper_connection import ZooKeeperConnection
from zbk.metadata.stores.zookeeper_members import from_list, to_list
from zbk.metadata.stores.zookeeper_watches import WatchKey, WatchKind, ZooKeeperWatches


class ZooKeeperStore:
    """A ``MetadataStore`` in ZooKeeper.

    ``timeout_s`` limits the first connection and each call, as does ``zbk.system.deadline``.
    ``session_timeout_ms`` is a request; the server may set another, within its own limits. The
    first use creates the root. ``access`` ``None``: that of this process.

    Raises:
        InvalidOptionError: the address is malformed.
        KeyFileError: the password or a certificate of the access cannot be used.
        MetadataAccessError: the server refuses this process.
        MetadataUnavailableError: no server answers in time.
    """

    def __init__(
        self,
        uri: str,
        *,
        timeout_s: float = 10.0,
        session_timeout_ms: int = 10_000,
        access: MetadataAccess | None = None,
    ) -> None:
        self._address = uri
        self._connection = ZooKeeperConnection(
            uri, timeout_s, session_timeout_ms, self._on_state, access or own_access()
        )
        self._callbacks = CallbackThread("zbk-zookeeper-callbacks")
        self._listeners = SessionListeners(self._callbacks)
        self._watches = ZooKeeperWatches(self._callbacks, self._start_read)
        try:
            self._connection.connect()
        except BaseException:
            self._callbacks.close()
            raise
        if self._connection.members.own_identity:
            self._watches.add(WatchKind.NODE, ACCESS, self._on_members)

    @property
    def address(self) -> str:
        """The URI that the store was opened with."""
        return self._address

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        """Create a node."""
        check_change(path)
        check_value(value)
        try:
            self._create(path, value, is_ephemeral=is_ephemeral)
        except NoNodeError as error:
            if not make_parents:
                raise NoNodeError(path, f"there is no {parent_of(path)}") from error
            self._make_parents(parent_of(path))
            self._create(path, value, is_ephemeral=is_ephemeral)

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        """Return a node; a fresh one after a ``sync``, because the server may lag."""
        check_path(path)
        self._check_thread()
        full = self._connection.full(path)
        value, stat = self._connection.read(
            path, lambda client: client.get_async(full), is_fresh=is_fresh
        )
        return Node(value, stat.version)

    def set(self, path: str, value: bytes, version: int) -> int:
        """Change a node whose version is ``version``; return its new version."""
        check_path(path)
        check_value(value)
        self._check_thread()
        full = self._connection.full(path)
        stat = self._connection.write(path, lambda client: client.set_async(full, value, version))
        return int(stat.version)

    def delete(self, path: str, version: int | None = None) -> None:
        """Remove a node, at this version if one is given."""
        check_change(path)
        self._check_thread()
        full = self._connection.full(path)
        wanted = -1 if version is None else version
        self._connection.write(path, lambda client: client.delete_async(full, wanted))

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, sorted."""
        check_path(path)
        self._check_thread()
        full = self._connection.full(path)
        return sorted(self._connection.read(path, lambda client: client.get_children_async(full)))

    def multi(self, operations: Sequence[Operation]) -> None:
        """Carry out all operations or none."""
        check_operations(operations)
        self._check_thread()
        if not operations:
            return
        results = self._connection.write(
            "multi", lambda client: self._transaction(client, operations).commit_async()
        )
        for operation, result in zip(operations, results, strict=False):
            # before the failed one are RolledBack, after it RuntimeInconsistency
            if isinstance(result, Exception) and not isinstance(
                result, kz.RolledBackError | kz.RuntimeInconsistency
            ):
                raise self._connection.translated(operation.path, result) from result

    def watch_children(self, path: str, callback: Callable[[list[str]], None]) -> Watch:
        """Call back with the sorted children, now and after each change."""
        check_path(path)
        self._check_thread()
        self._connection.check_usable()
        return self._watches.add(
            WatchKind.CHILDREN, path, lambda reading: callback(list(reading.names))
        )

    def watch_node(self, path: str, callback: Callable[[Node | None], None]) -> Watch:
        """Call back with the node or ``None``, now and after each change."""
        check_path(path)
        self._check_thread()
        self._connection.check_usable()
        return self._watches.add(WatchKind.NODE, path, lambda reading: callback(reading.node))

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        """Call back at each change of the session's state."""
        self._check_thread()
        self._connection.check_usable()
        return self._listeners.add(callback)

    def session_state(self) -> SessionState:
        """Return the session's present state."""
        return self._connection.state

    @property
    def own_identity(self) -> str:
        """The identity that access lists have for this process; "" without a user."""
        return self._connection.members.own_identity

    @property
    def members(self) -> Members | None:
        """The members of the tree, as this store knows them; ``None``: it is open to everyone."""
        return self._connection.members.members

    def change_members(self, members: Members) -> None:
        """Write the record of the members. Lists of nodes that exist stay as they are.

        Raises:
            MetadataAccessError: this process may not.
            MetadataUnavailableError: it may or may not have been written.
        """
        acl = to_list(rights_on(ACCESS, members))
        value, full = encode_members(members), self._connection.full(ACCESS)
        write = self._connection.write
        try:
            write(ACCESS, lambda client: client.create_async(full, value, acl=acl))
        except NodeExistsError:
            write(ACCESS, lambda client: client.set_async(full, value))
        self._connection.members.members = members

    def grants(self, path: str) -> tuple[Grant, ...]:
        """Return who may do what with a node.

        Raises:
            NoNodeError: there is no such node.
            MetadataAccessError: this process may not know.
        """
        full = self._connection.full(path)
        acls, _ = self._connection.read(path, lambda client: client.get_acls_async(full))
        return from_list(acls)

    def change_grants(self, path: str, grants: tuple[Grant, ...]) -> None:
        """Replace the access list of a node. Raises as ``grants``."""
        full, acl = self._connection.full(path), to_list(grants)
        self._connection.write(path, lambda client: client.set_acls_async(full, acl))

    def close(self) -> None:
        """End the session and its ephemeral nodes at once. Closing twice is allowed."""
        self._check_thread()
        self._watches.close()
        if self._connection.close():
            self._callbacks.close()

    def _check_thread(self) -> None:
        assert not self._callbacks.is_current(), "a callback may not call its store"

    def _create(self, path: str, value: bytes, *, is_ephemeral: bool) -> None:
        self._check_thread()
        full = self._connection.full(path)
        acl = self._connection.members.list_for(path)
        self._connection.write(
            path,
            lambda client: client.create_async(full, value, acl=acl, ephemeral=is_ephemeral),
        )

    def _make_parents(self, path: str) -> None:
        if path == "/":
            return
        try:
            self._create(path, b"", is_ephemeral=False)
        except NodeExistsError:
            return
        except NoNodeError:
            self._make_parents(parent_of(path))
            with suppress(NodeExistsError):
                self._create(path, b"", is_ephemeral=False)

    def _transaction(
        self, client: KazooClient, operations: Sequence[Operation]
    ) -> TransactionRequest:
        transaction = client.transaction()
        for operation in operations:
            full = self._connection.full(operation.path)
            match operation:
                case Create(path, value, is_ephemeral):
                    acl = self._connection.members.list_for(path)
                    transaction.create(full, value, acl=acl, ephemeral=is_ephemeral)
                case SetValue(_, value, version):
                    transaction.set_data(full, value, version)
                case Delete(_, version):
                    transaction.delete(full, -1 if version is None else version)
                case Check(_, version):
                    transaction.check(full, version)
        return transaction

    def _on_members(self, reading: Reading) -> None:
        """Learn the members; watches may have come or gone with the rights of this process."""
        if self._connection.members.take(reading.node):
            self._watches.rearm_later()

    def _on_state(self, state: SessionState) -> None:
        """Post a state to the listeners. Runs in kazoo's connection thread."""
        self._listeners.post(state)
        if state is SessionState.CONNECTED:
            self._callbacks.post(self._watches.rearm)

    def _start_read(self, key: WatchKey, on_done: Callable[[Reading | None], None]) -> None:
        """Read the node or children of a watch and arm it, also if the node does not exist."""
        client = self._connection.client
        full = self._connection.full(key.path)
        fired = _Fired(self._watches, key)

        def on_found(result: IAsyncResult) -> None:
            try:
                on_done(_reading(key.kind, *result.get_nowait()))
            except kz.NoNodeError:
                client.exists_async(full, watch=fired).rawlink(on_looked)
            except Exception as error:  # noqa: BLE001 - also errors of kazoo's reader
                fail(error)

        def on_looked(result: IAsyncResult) -> None:
            try:
                is_there = result.get_nowait() is not None
            except Exception as error:  # noqa: BLE001 - also errors of kazoo's reader
                fail(error)
                return
            if is_there:  # created after the read
                self._start_read(key, on_done)
            else:
                on_done(NOTHING)

        def fail(error: Exception) -> None:
            if isinstance(error, kz.NoAuthError):
                self._watches.rearm_later()
            LOG.info(
                "metadata.watch_unset",
                "%(address)s: watching %(path)s: %(error)r",
                address=self._address,
                path=key.path,
                error=error,
            )
            on_done(None)

        if key.kind is WatchKind.CHILDREN:
            client.get_children_async(full, watch=fired, include_data=True).rawlink(on_found)
        else:
            client.get_async(full, watch=fired).rawlink(on_found)


class _Fired(msgspec.Struct, frozen=True):
    """The callable of an armed watch. Equal for equal keys, of which kazoo keeps one."""

    watches: ZooKeeperWatches
    key: WatchKey

    def __call__(self, event: WatchedEvent) -> None:
        """Post the event. A lost connection is none: the next one reads everything again."""
        if event.type != EventType.NONE:
            self.watches.post_event(self.key)


def _reading(kind: WatchKind, found: object, stat: ZnodeStat) -> Reading:
    if kind is WatchKind.CHILDREN:
        assert isinstance(found, list), "the children of a node"
        return children_reading(stat.czxid, stat.cversion, found)
    assert isinstance(found, bytes), "the value of a node"
    return node_reading(stat.czxid, Node(found, stat.version))
