"""Filters of ledgers by their metadata."""

from collections.abc import Mapping
from typing import NamedTuple

from zbk.protocol.ledger.metadata import LedgerMetadata


def names_bookie(metadata: LedgerMetadata, bookie_id: str) -> bool:
    """Return whether a bookie is in any fragment of a ledger."""
    return any(bookie_id in fragment.bookies for fragment in metadata.fragments)


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
            and all(found.custom_metadata.get(key) == self.custom[key] for key in self.custom)
        )
