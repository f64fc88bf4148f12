"""The manual read-only switch of a bookie, which an operator sets in its stored cookie.

It survives a restart, and free space does not end it: the disk monitor opens and closes only its
own flag. A bookie that is switched off takes no new entries; it goes on to serve reads, fences and
recoveries, and no copy is placed on it.

Threads: the callback runs in the store's thread and does not block.
"""

from collections.abc import Callable

from zbk.actors.space_gate import SpaceGate
from zbk.errors import ZbkError
from zbk.metadata.paths import cookie_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.store import MetadataStore, Node, Watch
from zbk.metadata.values import StoredCookie, decode
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")


def watch_switch(
    store: MetadataStore, bookie_id: str, gate: SpaceGate, on_mode: Callable[[], None]
) -> Watch:
    """Set the gate as the switch is now, follow the switch, and call ``on_mode`` after a change.

    Raises:
        MetadataUnavailableError: the store does not answer.
    """
    path = cookie_path(bookie_id)

    def on_node(node: Node | None) -> None:
        if node is None:
            return
        try:
            is_readonly = decode(StoredCookie, node.value, path).is_readonly is True
        except ZbkError as error:
            LOG.error(
                "bookie.readonly_switch_unread",
                "the read-only switch keeps its state: %(error)s",
                error=error,
            )
            return
        if gate.is_switched_off is not is_readonly:
            gate.is_switched_off = is_readonly
            _log(is_readonly=is_readonly)
            on_mode()

    gate.is_switched_off = BookieRegistry(store).is_switched_readonly(bookie_id)
    if gate.is_switched_off:
        _log(is_readonly=True)
    return store.watch_node(path, on_node)


def _log(*, is_readonly: bool) -> None:
    if is_readonly:
        LOG.warning("bookie.readonly_switch_on", "READ-ONLY: an operator has switched the bookie")
    else:
        LOG.info("bookie.readonly_switch_off", "the read-only switch is off")
