"""A node in an existing ZooKeeper for a temporary cluster.

Clients of a real cluster must not see the bookies of a demo. They get their own node below the
given root, which is emptied at the end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from zbk.errors import InvalidOptionError, NoNodeError
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.stores.zookeeper_address import is_zookeeper


@contextmanager
def scratch_root(metadata: str | None) -> Iterator[str | None]:
    """Yield the address of a new node below ``metadata``, and empty it; ``None`` without one.

    Raises:
        InvalidOptionError: not a ZooKeeper: other stores cannot hold two clusters.
    """
    if not metadata:
        yield None
        return
    if not is_zookeeper(metadata):
        raise InvalidOptionError(
            "metadata",
            metadata,
            "a demo needs a store of its own: give zk://host:port/root, or nothing "
            "(unset ZBK_METADATA) for an SQLite file in its own folder",
        )
    address = f"{metadata.rstrip('/')}/demo-{uuid4().hex[:8]}"
    try:
        yield address
    finally:
        store = open_store(address)
        try:
            _empty(store, "/")
        finally:
            store.close()


def _empty(store: MetadataStore, path: str) -> None:
    try:
        names = store.children(path)
    except NoNodeError:
        return
    for name in names:
        child = f"{path.rstrip('/')}/{name}"
        _empty(store, child)
        store.delete(child)
