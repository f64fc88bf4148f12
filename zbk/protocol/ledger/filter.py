"""Filters of ledgers by their metadata."""

from collections.abc import Mapping
from typing import NamedTuple

from zbk.protocol.ledger.metadata import LedgerMetadata


def names_bookie(metadata: LedgerMetadata, bookie_id: str) -> bool:
    """Return whether a bookie is in any fragment of a ledger."""
    return any(bookie_id in fragment.bookies for fragment in metadata.fragments)


def is_within(path: str, namespace: str) -> bool:
    """Return whether a path is that of a namespace, or below it.

    >>> is_within("orders/eu", "orders"), is_within("ordersx", "orders")
    (True, False)
    """
    return f"{path}/".startswith(f"{namespace}/")


class LedgerFilter(NamedTuple):
    """What a ledger has to be; ``None`` accepts all. Times are wall clock, sizes bytes."""

    state: str | None = None
    ledger_type: str | None = None
    created_before_ms: int | None = None
    created_after_ms: int | None = None
    length_above: int | None = None
    length_below: int | None = None
    custom: Mapping[str, bytes] = {}
    bookie_id: str | None = None  # in any fragment
    owner: str | None = None  # the name of a principal; "" is none
    namespace: str | None = None  # its path, or a part of it

    def accepts(self, found: LedgerMetadata) -> bool:
        """Return whether a ledger passes all filters; without a length it passes none of size."""
        length, created_ms = found.length, found.created_ms
        return (
            self.state in (None, found.state)
            and self.ledger_type in (None, found.ledger_type)
            and (self.created_before_ms is None or created_ms < self.created_before_ms)
            and (self.created_after_ms is None or created_ms > self.created_after_ms)
            and (self.length_above is None or (length is not None and length > self.length_above))
            and (self.length_below is None or (length is not None and length < self.length_below))
            and (self.bookie_id is None or names_bookie(found, self.bookie_id))
            and self.owner in (None, found.known_access.owner)
            and (self.namespace is None or is_within(found.known_access.namespace, self.namespace))
            and all(found.custom_metadata.get(key) == self.custom[key] for key in self.custom)
        )
