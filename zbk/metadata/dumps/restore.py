"""Filling an empty store from a dump.

The node that makes a store a cluster, ``/INSTANCEID``, is created last: a restore that was
interrupted leaves no cluster, and the store is refused until it is emptied.
"""

from typing import Final

from zbk.errors import InvalidOptionError, MetadataConflictError
from zbk.metadata.dumps.dump_file import Dump, DumpedNode
from zbk.metadata.paths import INSTANCEID
from zbk.metadata.records.compare_and_swap import find_children
from zbk.metadata.stores.arguments import OPERATION_COUNT_MAX, VALUE_SIZE_MAX
from zbk.metadata.stores.node_rights import ACCESS
from zbk.metadata.stores.store import Create, MetadataStore

_BATCH_SIZE_MAX: Final = VALUE_SIZE_MAX // 4
_OVERHEAD_SIZE: Final = 256


def restore(store: MetadataStore, dump: Dump) -> int:
    """Create the nodes of a dump; return their number.

    Raises:
        InvalidOptionError: the store is not empty, or the dump holds no cluster.
        MetadataUnavailableError: the store does not answer; it is left half filled.
    """
    found = [name for name in find_children(store, "/") if f"/{name}" not in ("/zookeeper", ACCESS)]
    if found:
        raise InvalidOptionError(
            "metadata", store.address, f"is not empty: it has /{found[0]}; give an empty store"
        )
    last = [node for node in dump.nodes() if node.path == INSTANCEID]
    if not last:
        raise InvalidOptionError("file", str(dump.path), "holds no cluster")
    batch: list[DumpedNode] = []
    size = 0
    for node in dump.nodes():
        if node.path == INSTANCEID:
            continue
        node_size = len(node.path) + len(node.value) + _OVERHEAD_SIZE
        if batch and (size + node_size > _BATCH_SIZE_MAX or len(batch) == OPERATION_COUNT_MAX):
            _create(store, batch)
            batch, size = [], 0
        batch.append(node)
        size += node_size
    _create(store, batch)
    _create(store, last)
    return dump.node_count


def _create(store: MetadataStore, batch: list[DumpedNode]) -> None:
    try:
        if len(batch) == 1 and len(batch[0].value) > _BATCH_SIZE_MAX:
            store.create(batch[0].path, batch[0].value)  # has more room than a ``multi``
            return
        store.multi([Create(node.path, node.value) for node in batch])
    except MetadataConflictError as error:
        raise InvalidOptionError(
            "metadata", store.address, f"is changed by another client meanwhile ({error})"
        ) from error
