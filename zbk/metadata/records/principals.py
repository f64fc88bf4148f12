"""The principals of the cluster in the metadata store: one record, changed by compare-and-swap.

One record, so that each change is one step and each bookie has one watch. Any thread may call;
calls block. The callback of a watch runs in the store's callback thread and must neither block nor
call the store.
"""

from collections.abc import Callable
from typing import Final
from uuid import uuid4

from zbk.metadata.paths import PRINCIPALS
from zbk.metadata.records.compare_and_swap import CompareAndSwap, find_node, wait_s
from zbk.metadata.records.record_watch import watch_record
from zbk.metadata.stores.store import Create, MetadataStore, Node, SetValue, Watch
from zbk.metadata.values import Principals, decode, encode
from zbk.security.principals import Principal, check

Change = Callable[[tuple[Principal, ...]], tuple[Principal, ...]]
"""One of the rules of ``zbk.security.principals``: principals before, and after."""

WATCH_NAME: Final = "the principals"


class PrincipalStore:
    """The principals of the cluster whose metadata is in ``store``."""

    def __init__(self, store: MetadataStore, *, pause: Callable[[float], None] = wait_s) -> None:
        self._store = store
        self._swap = CompareAndSwap(store, pause)

    def all(self, *, is_fresh: bool = True) -> tuple[Principal, ...]:
        """Return all principals, by name.

        Raises:
            CorruptRecordError: the record is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        return _principals(find_node(self._store, PRINCIPALS, is_fresh=is_fresh))

    def change(self, change: Change) -> tuple[Principal, ...]:
        """Change the principals; return what they are then. Nothing is written if nothing changes.

        Raises:
            InvalidOptionError, NoSuchPrincipalError: as ``change``, which is called again when
                another client was faster.
            MetadataUnavailableError: they may or may not have been changed.
        """

        def attempt() -> tuple[Principal, ...] | None:
            node = find_node(self._store, PRINCIPALS, is_fresh=True)
            before = _principals(node)
            after = change(before)
            if after == before:
                return after
            check(after)
            value = encode(Principals(principals=after), write_token=uuid4().hex)
            write = (
                Create(PRINCIPALS, value)
                if node is None
                else SetValue(PRINCIPALS, value, node.version)
            )
            return after if self._swap.put(PRINCIPALS, value, [write]) else None

        return self._swap.until_done(PRINCIPALS, attempt)

    def watch(self, callback: Callable[[tuple[Principal, ...]], None]) -> Watch:
        """Call back with ``all()``: now, and after each change.

        A damaged record is logged and not reported.
        """

        def on_record(found: tuple[Principals, int] | None) -> None:
            callback(() if found is None else found[0].principals)

        return watch_record(self._store, PRINCIPALS, WATCH_NAME, _decoded, on_record)


def _principals(node: Node | None) -> tuple[Principal, ...]:
    return () if node is None else _decoded(node).principals


def _decoded(node: Node) -> Principals:
    return decode(Principals, node.value, PRINCIPALS)
