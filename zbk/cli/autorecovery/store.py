"""How commands about autorecovery reach the metadata store: they need no bookie."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zbk.errors import InvalidOptionError

if TYPE_CHECKING:
    from zbk.metadata.stores.store import MetadataStore


@contextmanager
def cluster_store(metadata: str | None) -> Iterator["MetadataStore"]:
    """Open the metadata store of a cluster; close it at the end.

    Raises:
        InvalidOptionError: no address is given, or no cluster is there.
        MetadataUnavailableError: nobody answers.
    """
    from zbk.metadata.records.instance import instance_id
    from zbk.metadata.stores.connect import open_store
    from zbk.system.context import read_context

    address = metadata or read_context()
    if not address:
        raise InvalidOptionError(
            "metadata", "", "give --metadata, set ZBK_METADATA, or start `zbk up`"
        )
    store = open_store(address, must_exist=True)
    try:
        instance_id(store)  # says so where there is no cluster
        yield store
    finally:
        store.close()
