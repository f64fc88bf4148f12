"""A place in an existing ZooKeeper for a temporary cluster.

Bookies that end with a demo must not be seen by the clients of a real cluster, so they get a node
of their own below the root that was given, emptied when they have ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from zbk.errors import InvalidOptionError, NoNodeError
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore


@contextmanager
def scratch_root(metadata: str | None) -> Iterator[str | None]:
    """Yield the address of a fresh node below ``metadata``, and empty it; ``None`` for none.

    Raises:
        InvalidOptionError: it is no ZooKeeper: nothing else has room for two clusters.
    """
    if not metadata:
        yield None
        return
    if not metadata.startswith("zk://"):
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
