"""The check of all records in a store that may change meanwhile."""

from zbk.metadata.dumps.export import nodes_of
from zbk.metadata.dumps.record_check import Problem, check_records
from zbk.metadata.stores.store import MetadataStore


def problems_in(store: MetadataStore) -> list[Problem]:
    """Return the problems that a second look finds again.

    Raises:
        MetadataUnavailableError: not all records could be read.
    """
    found = check_records(nodes_of(store))
    if not found:
        return []
    again = set(check_records(nodes_of(store)))
    return [one for one in found if one in again]
