"""A node in an existing ZooKeeper for a temporary cluster.

Clients of a real cluster must not see the bookies of a demo. They get their own node below the
given root, which is removed at the end.
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
    """Yield the address of a new node below ``metadata``, and remove it; ``None`` without one.

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
    path = f"/demo-{uuid4().hex[:8]}"
    try:
        yield f"{metadata.rstrip('/')}{path}"
    finally:
        store = open_store(metadata)  # its own root cannot remove itself
        try:
            _remove(store, path)
        finally:
            store.close()


def _remove(store: MetadataStore, path: str) -> None:
    try:
        for name in store.children(path):
            _remove(store, f"{path}/{name}")
        store.delete(path)
    except NoNodeError:  # it never was, or has ended
        return
