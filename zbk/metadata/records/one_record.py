"""A record that a cluster has once, such as its principals.

One record, changed by compare-and-swap, so that each change is one step and each bookie has one
watch. Any thread may call; calls block. The callback of a watch runs in the store's callback thread
and must neither block nor call the store.
"""

from collections.abc import Callable
from typing import Generic, TypeVar
from uuid import uuid4

import msgspec

from zbk.metadata.records.compare_and_swap import CompareAndSwap, find_node, wait_s
from zbk.metadata.records.record_watch import watch_record
from zbk.metadata.stores.store import Create, MetadataStore, Node, SetValue, Watch
from zbk.metadata.values import decode, encode

RecordT = TypeVar("RecordT", bound=msgspec.Struct)


class OneRecord(Generic[RecordT]):
    """The record at ``path``; ``absent`` is its value while there is none."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        name: str,
        absent: RecordT,
        pause: Callable[[float], None] = wait_s,
    ) -> None:
        self._store = store
        self._path = path
        self._name = name  # for people
        self._absent = absent
        self._swap = CompareAndSwap(store, pause)

    def read(self, *, is_fresh: bool = True) -> RecordT:
        """Return the record.

        Raises:
            CorruptRecordError: it is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        return self._value(find_node(self._store, self._path, is_fresh=is_fresh))

    def change(self, change: Callable[[RecordT], RecordT]) -> RecordT:
        """Change the record; return what it is then. Nothing is written if nothing changes.

        ``change`` is called again when another client was faster. Its errors go to the caller.

        Raises:
            MetadataUnavailableError: it may or may not have been changed.
        """

        def attempt() -> RecordT | None:
            node = find_node(self._store, self._path, is_fresh=True)
            before = self._value(node)
            after = change(before)
            if after == before:
                return after
            value, write = self._write(node, after)
            return after if self._swap.put(self._path, value, [write]) else None

        return self._swap.until_done(self._path, attempt)

    def change_beside(self, change: Callable[[RecordT], RecordT]) -> Create | SetValue:
        """Return the operation that changes the record, for a step that changes more.

        It fails, and the step with it, if another client is faster.

        Raises:
            CorruptRecordError: the record is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        node = find_node(self._store, self._path)
        return self._write(node, change(self._value(node)))[1]

    def watch(self, callback: Callable[[RecordT], None]) -> Watch:
        """Call back with the record: now, and after each change.

        A damaged record is logged and not reported.
        """

        def on_record(found: tuple[RecordT, int] | None) -> None:
            callback(self._absent if found is None else found[0])

        return watch_record(self._store, self._path, self._name, self._decoded, on_record)

    def _write(self, node: Node | None, after: RecordT) -> tuple[bytes, Create | SetValue]:
        value = encode(after, write_token=uuid4().hex)
        if node is None:
            return value, Create(self._path, value)
        return value, SetValue(self._path, value, node.version)

    def _value(self, node: Node | None) -> RecordT:
        return self._absent if node is None else self._decoded(node)

    def _decoded(self, node: Node) -> RecordT:
        return decode(type(self._absent), node.value, self._path)
