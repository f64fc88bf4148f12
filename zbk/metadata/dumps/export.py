"""Reading all nodes of a store that outlive their sessions.

A cluster may go on meanwhile. The counter of ledger ids is read last, so it is above every ledger
of the dump. Two records that refer to each other may be read before and after a change; the check
of the dump shows that.
"""

from collections.abc import Iterator

from zbk.errors import NoNodeError
from zbk.metadata.dumps.dump_file import DumpedNode
from zbk.metadata.paths import (
    AUDITOR_ELECTION,
    AVAILABLE,
    IDGEN,
    READONLY,
    READONLY_NAME,
    UNDERREPLICATION_LOCKS,
)
from zbk.metadata.records.compare_and_swap import find_children
from zbk.metadata.records.instance import instance_id
from zbk.metadata.stores.node_rights import ACCESS
from zbk.metadata.stores.store import MetadataStore

_EPHEMERAL_PARENTS = (AVAILABLE, READONLY, UNDERREPLICATION_LOCKS, AUDITOR_ELECTION)

_LEFT_OUT = (IDGEN, "/zookeeper", ACCESS)  # the last is about this ZooKeeper, not about the cluster


def nodes_of(store: MetadataStore) -> Iterator[DumpedNode]:
    """Yield all lasting nodes, parents first.

    Raises:
        InvalidOptionError: there is no cluster.
        MetadataUnavailableError: the store does not answer.
    """
    instance_id(store)
    yield from _below(store, "")
    yield from _node(store, IDGEN)


def _below(store: MetadataStore, parent: str) -> Iterator[DumpedNode]:
    for name in find_children(store, parent or "/"):
        path = f"{parent}/{name}"
        is_lasting = parent not in _EPHEMERAL_PARENTS or name == READONLY_NAME
        if path in _LEFT_OUT or not is_lasting:
            continue
        yield from _node(store, path)
        yield from _below(store, path)


def _node(store: MetadataStore, path: str) -> Iterator[DumpedNode]:
    try:
        found = store.get(path)
    except NoNodeError:  # removed since it was listed
        return
    yield DumpedNode(path, found.value, found.version)
