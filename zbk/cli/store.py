"""How commands reach a cluster's metadata store without a client."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zbk.errors import InvalidOptionError

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore


def known_address(metadata: str | None) -> str:
    """Return the given address of a metadata store, else that of the running `zbk up`, else "".

    Raises:
        InvalidOptionError: the context is stale.
    """
    from zbk.system.context import read_context

    return metadata or read_context() or ""


def cluster_address(metadata: str | None) -> str:
    """Return the given address of a metadata store, else that of the running `zbk up`.

    Raises:
        InvalidOptionError: there is neither, or the context is stale.
    """
    address = known_address(metadata)
    if not address:
        raise InvalidOptionError(
            "metadata", "", "give --metadata, set ZBK_METADATA, or start `zbk up`"
        )
    return address


@contextmanager
def metadata_store(address: str) -> Iterator["MetadataStore"]:
    """Open a metadata store that exists, and close it at the end.

    Raises:
        InvalidOptionError: there is no store at this address.
        MetadataUnavailableError: the store does not answer.
    """
    from zbk.metadata.stores.connect import open_store

    store = open_store(address, must_exist=True)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def cluster_store(metadata: str | None) -> Iterator["MetadataStore"]:
    """Open the metadata store of a cluster, and close it at the end.

    Raises:
        InvalidOptionError: no address is given, or the store holds no cluster.
        MetadataUnavailableError: the store does not answer.
    """
    from zbk.metadata.records.instance import instance_id

    with metadata_store(cluster_address(metadata)) as store:
        instance_id(store)  # fails where there is no cluster
        yield store
