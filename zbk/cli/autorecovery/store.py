"""How commands about autorecovery reach the metadata store: they need no bookie."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zbk.errors import InvalidOptionError

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore


def cluster_address(metadata: str | None) -> str:
    """Return the address of a cluster's metadata: the given one, or that of the running `zbk up`.

    Raises:
        InvalidOptionError: no address is given, or the context is stale.
    """
    from zbk.system.context import read_context

    address = metadata or read_context()
    if not address:
        raise InvalidOptionError(
            "metadata", "", "give --metadata, set ZBK_METADATA, or start `zbk up`"
        )
    return address


@contextmanager
def cluster_store(metadata: str | None) -> Iterator["MetadataStore"]:
    """Open the metadata store of a cluster; close it at the end.

    Raises:
        InvalidOptionError: no address is given, or no cluster is there.
        MetadataUnavailableError: nobody answers.
    """
    from zbk.metadata.records.instance import instance_id
    from zbk.metadata.stores.connect import open_store

    store = open_store(cluster_address(metadata), must_exist=True)
    try:
        instance_id(store)  # says so where there is no cluster
        yield store
    finally:
        store.close()
