"""The rights that a bookie enforces: read at its start, and followed in the metadata store.

They are enforced where each connection has a key: with ``security = required``. A bookie that also
admits connections without a key, while keys are rolled out, cannot know who asks.

Threads: the start's; the callbacks of the watches run in the store's thread and do not block.
"""

from collections.abc import Callable

from zbk.actors.serve.access_gate import AccessMessage, GrantsChanged, SetNamespaces
from zbk.metadata.records.ledger_grants import LedgerGrants
from zbk.metadata.records.namespaces import NamespaceStore
from zbk.metadata.stores.store import MetadataStore
from zbk.security.access_table import AccessTable
from zbk.security.namespaces import NamespaceTable
from zbk.transport.router import FrontSecurity


def access_table(store: MetadataStore, security: FrontSecurity | None) -> AccessTable | None:
    """Return the rights that a bookie begins with; ``None``: it enforces none.

    Raises:
        CorruptRecordError: the record of the namespaces is damaged.
        MetadataUnavailableError: the store does not answer.
    """
    if security is None or security.secure_endpoint:
        return None
    return AccessTable(security.keys, NamespaceTable(NamespaceStore(store).all()))


def follow_access(
    store: MetadataStore, tell: Callable[[AccessMessage], None]
) -> Callable[[], None]:
    """Report namespaces and changes of grants; return what ends that.

    The principals come with the keys of the front (``BookieActors.set_keys``).

    Raises:
        MetadataUnavailableError: the store does not answer.
    """
    watches = [
        NamespaceStore(store).watch(lambda found: tell(SetNamespaces(NamespaceTable(found)))),
        LedgerGrants(store).watch(lambda ledger_ids: tell(GrantsChanged(ledger_ids))),
    ]

    def end() -> None:
        for watch in watches:
            watch.cancel()

    return end
