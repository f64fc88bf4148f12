"""The metadata store as a port: a small tree of versioned nodes, as ZooKeeper has it.

Two bodies, ``zookeeper`` (real clusters) and ``sqlite`` (one host), and the tests' own store in
memory pass one conformance suite. ``zbk.metadata.records`` says what zbk keeps in the tree.

Words: a *path* is absolute, ``/a/b``, below the store's root; a *version* starts at 0 and grows by
one with each ``set``; an *ephemeral* node goes when the session that made it ends. Session states:
CONNECTED; SUSPENDED (in doubt: do not rely on the session's guarantees); LOST (its
ephemerals are gone; ``store`` goes on with a new session, and its owner makes them again).

All calls block, no longer than the deadline of what they are a part of (``zbk.system.deadline``),
and may be made from any thread but not from inside a callback. Callbacks run in a
thread of the store's own, one at a time, and must not block: hand the news on.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True):
    """A node's value, and the version to give to the next ``set``."""

    value: bytes
    version: int


class Create(msgspec.Struct, frozen=True):
    """Part of a ``multi``: make a node. Its parent must exist."""

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
    """What the store knows about its session."""

    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


class Watch(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """Stop it. A callback that is under way may still come."""
        ...


class MetadataStore(Protocol):
    """The tree. Raises ``MetadataUnavailableError`` where the store does not answer in time.

    After that error a change may or may not have been made; callers that must know read back and
    compare a token of their own in the value.
    """

    @property
    def address(self) -> str:
        """The URI that it was opened with."""
        ...

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        """Make a node.

        Raises:
            NodeExistsError: the path is taken.
            NoNodeError: the parent is missing and ``make_parents`` is false.
        """
        ...

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        """Return a node; with ``is_fresh`` as it is after every change that was answered before.

        Without it the answer may be older than what another session has been told.

        Raises:
            NoNodeError: there is none: an explicit answer, never a guess.
        """
        ...

    def set(self, path: str, value: bytes, version: int) -> int:
        """Change a node whose version is ``version``; return its new version.

        Raises:
            BadVersionError: it has another version.
            NoNodeError: there is none.
        """
        ...

    def delete(self, path: str, version: int | None = None) -> None:
        """Remove a node, at this version if one is given.

        Raises:
            BadVersionError: it has another version.
            NoNodeError: there is none.
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
        """Do all of it or none.

        Raises:
            MetadataConflictError: the first operation that failed, as its own error.
        """
        ...

    def watch_children(self, path: str, callback: Callable[[list[str]], None]) -> Watch:
        """Call back with the sorted children: now and after each change; [] while there is no node.

        Several quick changes may come as one. The watch outlives reconnects and sessions.
        """
        ...

    def watch_node(self, path: str, callback: Callable[[Node | None], None]) -> Watch:
        """Call back with the node, or None: now, and after each change. As ``watch_children``."""
        ...

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        """Call back at each change of the session's state."""
        ...

    def session_state(self) -> SessionState:
        """Return what is known of the session now."""
        ...

    def close(self) -> None:
        """End the session; its ephemerals go at once. Twice is fine."""
        ...
