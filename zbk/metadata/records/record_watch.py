"""A watch on one record: its callback receives the decoded value and the version.

Runs in the store's callback thread.
"""

from collections.abc import Callable
from typing import TypeVar

from zbk.errors import ZbkError
from zbk.metadata.stores.store import MetadataStore, Node, Watch
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.metadata")

T = TypeVar("T")


def watch_record(
    store: MetadataStore,
    path: str,
    name: str,
    decoded: Callable[[Node], T],
    callback: Callable[[tuple[T, int] | None], None],
) -> Watch:
    """Call back with value and version, now and after each change; ``None`` if there is no node.

    ``callback`` must not block and must not call the store. A damaged value is logged, with
    ``name``, and not reported.
    """

    def on_node(node: Node | None) -> None:
        if node is None:
            callback(None)
            return
        try:
            found = decoded(node)
        except ZbkError as error:
            LOG.error(
                "metadata.record_unreadable",
                "watching %(record)s: %(error)s",
                record=name,
                error=error,
            )
        else:
            callback((found, node.version))

    return store.watch_node(path, on_node)
