"""The tree of the metadata store in memory: the server's side.

Everything happens at once, under the tree's one lock; each change tells the open stores which
paths it touched. The order in which an operation's conditions are checked is ZooKeeper's.
"""

import threading
from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from zbk.errors import (
    BadVersionError,
    MetadataConflictError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ZbkError,
)
from zbk.metadata.stores.arguments import name_of, parent_of
from zbk.metadata.stores.callbacks import NOTHING, Reading, children_reading, node_reading
from zbk.metadata.stores.store import Check, Create, Delete, Node, Operation, SetValue


class ChangeListener(Protocol):
    """An open store, as the tree knows it."""

    def look_again(self, paths: Collection[str]) -> None:
        """Note that something changed at ``paths``. Called under the tree's lock."""
        ...


class MemoryNode(msgspec.Struct, frozen=True):
    """A node; a change puts another one in its place."""

    value: bytes
    created: int
    version: int = 0
    child_version: int = 0
    children: frozenset[str] = frozenset()
    session_id: int | None = None  # of an ephemeral node


class Tree:
    """The tree that several stores share. Its fields change under ``lock`` only."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.lock = threading.RLock()
        self._nodes: dict[str, MemoryNode] = {"/": MemoryNode(b"", created=0)}
        self._undo: dict[str, MemoryNode | None] = {}
        self._counter = 0
        self._stores: list[ChangeListener] = []

    def begin_session(self, store: ChangeListener) -> int:
        """Return a new session id for ``store``, which hears of changes from now on."""
        with self.lock:
            if store not in self._stores:
                self._stores.append(store)
            return self._next_number()

    def end_session(self, session_id: int) -> None:
        """Remove a session's ephemeral nodes."""
        with self.lock:
            gone = [path for path, node in self._nodes.items() if node.session_id == session_id]
            self.apply([Delete(path) for path in gone], session_id)

    def forget(self, store: ChangeListener) -> None:
        """Stop reporting changes to ``store``."""
        with self.lock:
            self._stores.remove(store)

    def find(self, path: str) -> MemoryNode | None:
        """Return a node, or ``None``."""
        return self._nodes.get(path)

    def apply(self, operations: Sequence[Operation], session_id: int) -> None:
        """Do all operations, or none and raise what the first bad one met."""
        with self.lock:
            self._undo = {}
            try:
                for operation in operations:
                    self._apply_one(operation, session_id)
            except ZbkError:
                for path, node in self._undo.items():
                    self._restore(path, node)
                raise
            for store in self._stores:
                store.look_again(self._undo.keys())

    def read_children(self, path: str) -> Reading:
        """Return what a watch on the children of ``path`` finds."""
        with self.lock:
            node = self._nodes.get(path)
            if node is None:
                return NOTHING
            return children_reading(node.created, node.child_version, list(node.children))

    def read_node(self, path: str) -> Reading:
        """Return what a watch on ``path`` finds."""
        with self.lock:
            node = self._nodes.get(path)
            if node is None:
                return NOTHING
            return node_reading(node.created, Node(node.value, node.version))

    def _apply_one(self, operation: Operation, session_id: int) -> None:
        match operation:
            case Create(path, value, is_ephemeral):
                parent = self._nodes.get(parent_of(path))
                if parent is None:
                    raise NoNodeError(path, f"there is no {parent_of(path)}")
                if path in self._nodes:
                    raise NodeExistsError(path, "exists already")
                if parent.session_id is not None:
                    raise MetadataConflictError(path, "an ephemeral node has no children")
                owner = session_id if is_ephemeral else None
                self._put(path, MemoryNode(value, self._next_number(), session_id=owner))
                self._put_children(path, parent.children | {name_of(path)})
            case SetValue(path, value, version):
                node = self._existing(path, version)
                self._put(path, msgspec.structs.replace(node, value=value, version=version + 1))
            case Delete(path, version):
                node = self._existing(path, version)
                if node.children:
                    raise NotEmptyError(path, "has children")
                self._put(path, None)
                parent = self._existing(parent_of(path))
                self._put_children(path, parent.children - {name_of(path)})
            case Check(path, version):
                self._existing(path, version)

    def _existing(self, path: str, version: int | None = None) -> MemoryNode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(path, "there is no such node")
        if version is not None and node.version != version:
            raise BadVersionError(path, f"has version {node.version}, not {version}")
        return node

    def _put_children(self, path: str, children: frozenset[str]) -> None:
        parent_path = parent_of(path)
        parent = self._existing(parent_path)
        self._put(
            parent_path,
            msgspec.structs.replace(
                parent, children=children, child_version=parent.child_version + 1
            ),
        )

    def _put(self, path: str, node: MemoryNode | None) -> None:
        self._undo.setdefault(path, self._nodes.get(path))
        self._restore(path, node)

    def _restore(self, path: str, node: MemoryNode | None) -> None:
        if node is None:
            self._nodes.pop(path, None)
        else:
            self._nodes[path] = node

    def _next_number(self) -> int:
        self._counter += 1
        return self._counter
