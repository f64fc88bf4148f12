"""Compare-and-swap with read-back: how all records in the metadata store change.

A change reads a node, decides, and writes at the version that was read. When another client was
faster it starts again, after a random pause that grows with each attempt, ``ATTEMPT_COUNT_MAX``
times.

Lost replies. A change that ends with ``MetadataUnavailableError`` may or may not have been made.
The node is then read back: the change was made exactly if the node has the value that this attempt
wrote. So a value must be unique to the attempt: it holds a fresh write token (``values.encode``),
or an id that no other client has. If the node has another value, the change was not made, or was
made and overwritten; in both cases the caller decides again on what is there now. If reading back
gets no answer either, the error goes to the caller.

Any thread; every method blocks. Source: BookKeeper's ``MetadataUpdateLoop``.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from zbk.errors import (
    BadVersionError,
    MetadataAccessError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from zbk.metadata.stores.arguments import parent_of
from zbk.metadata.stores.store import Create, Delete, MetadataStore, Node, Operation, SetValue

ATTEMPT_COUNT_MAX: Final = 32

_PAUSE_MIN_S = 0.001
_PAUSE_MAX_S = 0.1

T = TypeVar("T")


def wait_s(seconds: float) -> None:
    """Wait. Simulations pass another function."""
    threading.Event().wait(seconds)


def find_node(store: MetadataStore, path: str, *, is_fresh: bool = False) -> Node | None:
    """Return a node, or ``None`` if the store says that there is none."""
    try:
        return store.get(path, is_fresh=is_fresh)
    except NoNodeError:
        return None


def find_children(store: MetadataStore, path: str) -> list[str]:
    """Return the names of a node's children, sorted; none if there is no such node."""
    try:
        return store.children(path)
    except NoNodeError:
        return []


def find_named(read_head: Callable[[], str], read_record: Callable[[str], T]) -> T | None:
    """Return the record with a name, or ``None``: its head holds an id, and the id is its path.

    Both functions raise ``NoNodeError`` if their node does not exist.
    """
    for _ in range(ATTEMPT_COUNT_MAX):
        try:
            record_id = read_head()
        except NoNodeError:
            return None
        with suppress(NoNodeError):  # deleted between the two reads; there may be a new one
            return read_record(record_id)
    return None


class CompareAndSwap:
    """Changes of nodes in ``store``. ``pause`` waits for a number of seconds."""

    def __init__(self, store: MetadataStore, pause: Callable[[float], None] = wait_s) -> None:
        self._store = store
        self._pause = pause

    def until_done(
        self, path: str, attempt: Callable[[], T | None], attempt_count_max: int = ATTEMPT_COUNT_MAX
    ) -> T:
        """Call ``attempt`` until it returns a value; ``None`` means that another client was faster.

        Raises:
            MetadataConflictError: other clients were faster ``attempt_count_max`` times in a row.
        """
        for number in range(attempt_count_max):
            done = attempt()
            if done is not None:
                return done
            self.wait(number)
        raise MetadataConflictError(path, f"others changed it, {attempt_count_max} times in a row")

    def wait(self, attempt: int) -> None:
        """Wait after an attempt, numbered from 0. The limit of the pause doubles with each."""
        rng = random.Random()  # noqa: S311 - spreads retries, keeps no secret
        self._pause(rng.uniform(0, min(_PAUSE_MAX_S, _PAUSE_MIN_S * 2**attempt)))

    def write(self, path: str, value: bytes, node: Node | None) -> bool:
        """Write a node that was read as ``node``; return false if another client was faster.

        Raises:
            MetadataUnavailableError: the node may or may not have been written.
        """
        with suppress(BadVersionError, NoNodeError, NodeExistsError):
            if node is None:
                self._store.create(path, value, make_parents=True)
            else:
                self._store.set(path, value, node.version)
            return True
        return False

    def put(
        self,
        path: str,
        value: bytes,
        operations: Sequence[Operation],
        *,
        make_parents: bool = False,
    ) -> bool:
        """Carry out ``operations`` in one step; one of them writes ``value`` at ``path``.

        Return false if another client was faster. ``value`` is unique to this attempt.

        Raises:
            MetadataUnavailableError: the change may or may not have been made.
        """
        try:
            self._apply(operations)
        except NoNodeError:
            if make_parents:
                self.make_parents(path)
            return False
        except (BadVersionError, NodeExistsError):
            return False
        except MetadataAccessError:
            raise
        except MetadataUnavailableError:
            node = find_node(self._store, path)
            return node is not None and node.value == value
        return True

    def create(self, path: str, operations: Sequence[Operation], *, is_fresh: bool = False) -> None:
        """Carry out ``operations``, which create ``path``, unless the node exists.

        Raises:
            MetadataUnavailableError: the node may or may not exist.
        """

        def attempt() -> bool | None:
            try:
                self._apply(operations)
            except NodeExistsError:
                return True
            except NoNodeError:
                self.make_parents(path)
                return None
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                return True if find_node(self._store, path, is_fresh=is_fresh) else None
            return True

        self.until_done(path, attempt)

    def remove(
        self,
        path: str,
        operations: Sequence[Operation],
        attempt_count_max: int = ATTEMPT_COUNT_MAX,
    ) -> bool:
        """Carry out ``operations``, which remove the node at ``path``; false: it did not exist.

        Raises:
            MetadataUnavailableError: the node may or may not have been removed.
        """
        for _ in range(attempt_count_max):
            try:
                self._apply(operations)
            except NoNodeError:
                return False
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                if find_node(self._store, path) is not None:
                    continue
            return True
        raise MetadataUnavailableError(
            self._store.address, f"{path}: the reply was lost {attempt_count_max} times"
        )

    def make_parents(self, path: str) -> None:
        """Create the missing parents of ``path``. The next attempt shows whether that succeeded.

        Another client may remove an empty one while the next is made below it.

        Raises:
            MetadataAccessError: this process may not create them, so no attempt succeeds.
        """
        parent = parent_of(path)
        try:
            with suppress(NodeExistsError, NoNodeError):
                self._store.create(parent, make_parents=True)
        except MetadataAccessError:  # ZooKeeper refuses before it looks whether the node exists
            if find_node(self._store, parent) is None:
                raise
        except MetadataUnavailableError:
            return

    def _apply(self, operations: Sequence[Operation]) -> None:
        match operations:
            case [SetValue(path, value, version)]:
                self._store.set(path, value, version)
            case [Delete(path, at_version)]:
                self._store.delete(path, at_version)
            case [Create(path, value, is_ephemeral)]:
                self._store.create(path, value, is_ephemeral=is_ephemeral)
            case _:
                self._store.multi(operations)
