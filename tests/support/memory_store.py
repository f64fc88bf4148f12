"""A metadata store in memory for simulation and unit tests, with faults on cue.

A ``MemoryTree`` is the server, a ``MemoryStore`` one client's session with it. Everything happens
under the tree's one lock, at once; only callbacks run later, in each store's own thread, and
``settle`` waits for them. What a store's hooks do:

    suspend, resume   the server does not answer; after ``resume`` the watches catch up
    expire_session    the server drops the session; a new one begins, at the latest at ``resume``
    lose_next_reply   the next change is made, and its caller gets no answer
    fail_next         the next call is not made, and its caller gets no answer
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tests.support.memory_tree import Tree
from zbk.errors import ClientClosedError, MetadataUnavailableError, NoNodeError
from zbk.metadata.stores.arguments import (
    check_change,
    check_operations,
    check_path,
    check_value,
    parent_of,
)
from zbk.metadata.stores.callbacks import CallbackThread, Reading, SessionListeners, Subscription
from zbk.metadata.stores.connect import register_scheme
from zbk.metadata.stores.store import Create, Delete, Node, Operation, SessionState, SetValue, Watch


class MemoryTree(Tree):
    """The tree that several stores share."""

    def open_session(self) -> "MemoryStore":
        """Return a new client's store."""
        return MemoryStore(self)


class MemoryStore:
    """One session with a ``MemoryTree``: a ``MetadataStore`` with hooks that make it fail."""

    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree
        self._callbacks = CallbackThread("zbk-memory-callbacks")
        self._listeners = SessionListeners(self._callbacks)
        self._subscriptions: dict[Subscription, Callable[[], Reading]] = {}
        self._state = SessionState.CONNECTED
        self._is_closed = False
        self._is_expired = False  # while suspended: the server gave the session up
        self._lost_reply_count = 0
        self._failure_count = 0
        self._session_id = tree.begin_session(self)

    # ------------------------------------------------------------------ the port

    @property
    def address(self) -> str:
        """The URI that it was opened with."""
        return f"memory://{self._tree.name}"

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        """Make a node."""
        check_change(path)
        check_value(value)
        with self._change():
            missing: list[Operation] = []
            parent = parent_of(path)
            while make_parents and self._tree.find(parent) is None:
                missing.append(Create(parent))
                parent = parent_of(parent)
            creates = [*reversed(missing), Create(path, value, is_ephemeral)]
            self._tree.apply(creates, self._session_id)

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        """Return a node. There is one tree, so it is always fresh."""
        del is_fresh
        check_path(path)
        with self._call():
            node = self._tree.find(path)
            if node is None:
                raise NoNodeError(path, "there is no such node")
            return Node(node.value, node.version)

    def set(self, path: str, value: bytes, version: int) -> int:
        """Change a node whose version is ``version``; return its new version."""
        check_path(path)
        check_value(value)
        with self._change():
            self._tree.apply([SetValue(path, value, version)], self._session_id)
        return version + 1

    def delete(self, path: str, version: int | None = None) -> None:
        """Remove a node, at this version if one is given."""
        check_change(path)
        with self._change():
            self._tree.apply([Delete(path, version)], self._session_id)

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children, sorted."""
        check_path(path)
        with self._call():
            node = self._tree.find(path)
            if node is None:
                raise NoNodeError(path, "there is no such node")
            return sorted(node.children)

    def multi(self, operations: Sequence[Operation]) -> None:
        """Do all of it or none."""
        check_operations(operations)
        with self._change():
            self._tree.apply(operations, self._session_id)

    def watch_children(self, path: str, callback: Callable[[list[str]], None]) -> Watch:
        """Call back with the sorted children: now and after each change."""
        return self._watch(
            path,
            read=lambda: self._tree.read_children(path),
            deliver=lambda reading: callback(list(reading.names)),
        )

    def watch_node(self, path: str, callback: Callable[[Node | None], None]) -> Watch:
        """Call back with the node, or None: now, and after each change."""
        return self._watch(
            path,
            read=lambda: self._tree.read_node(path),
            deliver=lambda reading: callback(reading.node),
        )

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        """Call back at each change of the session's state."""
        self._check_usable()
        return self._listeners.add(callback)

    def session_state(self) -> SessionState:
        """Return what is known of the session now."""
        if self._is_closed:
            return SessionState.LOST
        return self._state

    def close(self) -> None:
        """End the session; its ephemerals go at once. Twice is fine."""
        assert not self._callbacks.is_current(), "a callback may not call its store"
        with self._tree.lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._subscriptions.clear()
            self._tree.end_session(self._session_id)
            self._tree.forget(self)
        self._callbacks.close()

    # ------------------------------------------------------------------ faults on cue

    def suspend(self) -> None:
        """Stop answering."""
        with self._tree.lock:
            self._become(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Answer again; with a new session if the old one has expired meanwhile."""
        with self._tree.lock:
            if self._is_expired:
                self._is_expired = False
                self._become(SessionState.LOST)
                self._session_id = self._tree.begin_session(self)
            self._become(SessionState.CONNECTED)
            self.look_again([subscription.path for subscription in self._subscriptions])

    def expire_session(self) -> None:
        """End the session at the server, with its ephemerals."""
        with self._tree.lock:
            was_suspended = self._state is SessionState.SUSPENDED
            self.suspend()
            self._tree.end_session(self._session_id)
            self._is_expired = True
            if not was_suspended:
                self.resume()

    def lose_next_reply(self, count: int = 1) -> None:
        """Make the next ``count`` changes, and lose their replies."""
        self._lost_reply_count += count

    def fail_next(self, count: int = 1) -> None:
        """Fail the next ``count`` calls without making them."""
        self._failure_count += count

    def settle(self, timeout_s: float = 5.0) -> None:
        """Wait until every callback that is due has run."""
        assert self._callbacks.settle(timeout_s), "a callback blocks"

    # ------------------------------------------------------------------ inside

    def look_again(self, paths: Collection[str]) -> None:
        """Read again, later, what is watched at ``paths``. The tree calls this under its lock."""
        for subscription, read in self._subscriptions.items():
            if subscription.path in paths:
                self._callbacks.post(partial(self._offer, subscription, read))

    def _watch(
        self, path: str, read: Callable[[], Reading], deliver: Callable[[Reading], None]
    ) -> Watch:
        check_path(path)
        with self._tree.lock:
            self._check_usable()
            subscription = Subscription(path, deliver, lambda: self._unwatch(subscription))
            self._subscriptions[subscription] = read
            self._callbacks.post(partial(self._offer, subscription, read))
            return subscription

    def _unwatch(self, subscription: Subscription) -> None:
        with self._tree.lock:
            self._subscriptions.pop(subscription, None)

    def _offer(self, subscription: Subscription, read: Callable[[], Reading]) -> None:
        with self._tree.lock:
            if self._state is not SessionState.CONNECTED or self._is_closed:
                return  # ``resume`` looks again
            reading = read()
        subscription.offer(reading)

    def _become(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            self._listeners.post(state)

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._tree.lock:
            self._check_usable()
            if self._failure_count > 0:
                self._failure_count -= 1
                raise MetadataUnavailableError(self.address, "did not answer; nothing was done")
            if self._state is not SessionState.CONNECTED:
                raise MetadataUnavailableError(self.address, "the session is suspended")
            yield

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._call():
            yield
            if self._lost_reply_count > 0:
                self._lost_reply_count -= 1
                raise MetadataUnavailableError(self.address, "the reply was lost")

    def _check_usable(self) -> None:
        assert not self._callbacks.is_current(), "a callback may not call its store"
        if self._is_closed:
            raise ClientClosedError


_NAMED_TREES: dict[str, MemoryTree] = {}
_NAMED_TREES_LOCK = threading.Lock()


def named_tree(name: str) -> MemoryTree:
    """Return this process's tree of that name, the same one each time."""
    with _NAMED_TREES_LOCK:
        return _NAMED_TREES.setdefault(name, MemoryTree(name))


def open_memory_stores_by_address() -> None:
    """Open ``memory://name`` with a session of the named tree, in this process."""
    register_scheme("memory", lambda name: named_tree(name).open_session())
