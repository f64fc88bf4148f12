"""The metadata store as a port: a small tree of versioned nodes, as ZooKeeper has it.

Two bodies, ``zookeeper`` (real clusters) and ``sqlite`` (one host), and the tests' store in memory
pass one conformance suite. ``zbk.metadata.records`` has the records that zbk keeps in the tree.

Words: a *path* is absolute, ``/a/b``, below the store's root. A *version* starts at 0 and grows by
one with each ``set``. An *ephemeral* node vanishes when the session that created it ends. Session
states: CONNECTED; SUSPENDED (in doubt: do not rely on the session's guarantees); LOST (its
ephemeral nodes are gone; the store continues with a new session, and the owner creates them again).

All calls block, up to the deadline of the surrounding call (``zbk.system.deadline``). Any thread
may call, except from inside a callback. Callbacks run in a thread of the store, one at a time, and
must not block.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True):
    """A node's value, and the version for the next ``set``."""

    value: bytes
    version: int


class Create(msgspec.Struct, frozen=True):
    """Part of a ``multi``: create a node. Its parent must exist."""

    path: str
    value: bytes = b""
    is_ephemeral: bool = False


class SetValue(msgspec.Struct, frozen=True):
    """Part of a ``multi``: change a node at this version."""

    path: str
    value: bytes
    version: int


class Delete(msgspec.Struct, frozen=True):
    """Part of a ``multi``: remove a node, at this version if one is given."""

    path: str
    version: int | None = None


class Check(msgspec.Struct, frozen=True):
    """Part of a ``multi``: a node must have this version."""

    path: str
    version: int


Operation: TypeAlias = Create | SetValue | Delete | Check


class SessionState(StrEnum):
    """The state of a session, as the store knows it."""

    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


class Watch(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """Stop the watch. A callback that is under way may still come."""
        ...


class MetadataStore(Protocol):
    """The tree. Each call raises ``MetadataUnavailableError`` if the store does not answer in time.

    After that error a change may or may not have been made. A caller that must know reads back and
    compares its own token in the value.
    """

    @property
    def address(self) -> str:
        """The URI that the store was opened with."""
        ...

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        """Create a node.

        Raises:
            NodeExistsError: the path is taken.
            NoNodeError: the parent is missing and ``make_parents`` is false, or another client
                removed a parent meanwhile.
        """
        ...

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        """Return a node; with ``is_fresh`` it includes every change that was answered before.

        Without it the answer may be older than an answer to another session.

        Raises:
            NoNodeError: the store answered that there is no such node.
        """
        ...

    def set(self, path: str, value: bytes, version: int) -> int:
        """Change a node whose version is ``version``; return its new version.

        Raises:
            BadVersionError: it has another version.
            NoNodeError: there is no such node.
        """
        ...

    def delete(self, path: str, version: int | None = None) -> None:
        """Remove a node, at this version if one is given.

        Raises:
            BadVersionError: it has another version.
            NoNodeError: there is no such node.
            NotEmptyError: it has children.
        """
        ...

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, sorted.

        Raises:
            NoNodeError: there is no such node.
        """
        ...

    def multi(self, operations: Sequence[Operation]) -> None:
        """Carry out all operations or none.

        Raises:
            MetadataConflictError: the first operation that failed, as its own error.
        """
        ...

    def watch_children(self, path: str, callback: Callable[[list[str]], None]) -> Watch:
        """Call back with the sorted children, now and after each change; [] if there is no node.

        Several quick changes may come as one. The watch outlives reconnects and sessions.
        """
        ...

    def watch_node(self, path: str, callback: Callable[[Node | None], None]) -> Watch:
        """Call back with the node or ``None``, now and after each change. As ``watch_children``."""
        ...

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        """Call back at each change of the session's state."""
        ...

    def session_state(self) -> SessionState:
        """Return the session's present state."""
        ...

    def close(self) -> None:
        """End the session and its ephemeral nodes at once. Closing twice is allowed."""
        ...
