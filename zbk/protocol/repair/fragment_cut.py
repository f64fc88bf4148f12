"""Cuts around lost entries, so that they do not keep the rest of a fragment under-replicated."""

from collections.abc import Sequence
from typing import Final

from zbk.protocol.entry.spans import Span, covering
from zbk.protocol.ledger.metadata import LedgerMetadata

LOST_SPAN_COUNT_MAX: Final = 8
"""Losses that one cut is made around; those with the narrowest gaps between them count as one."""

FRAGMENT_COUNT_MAX: Final = 1_000
"""A ledger is not cut into more fragments: its metadata are one value."""


def cut_starts(metadata: LedgerMetadata, span: Span, lost: Sequence[Span]) -> tuple[int, ...]:
    """Return where to cut the fragment with the entries ``span`` around lost ones.

    Empty if nothing is left between the cuts, the ledger would have too many fragments, or it is
    open: its writer knows its fragments.
    """
    first, last = span
    spans = covering(tuple(lost), LOST_SPAN_COUNT_MAX)
    edges = (edge for begin, end in spans for edge in (begin, end + 1))
    starts = tuple(edge for edge in edges if first < edge <= last)
    is_too_much = len(metadata.fragments) + len(starts) > FRAGMENT_COUNT_MAX
    return starts if metadata.is_closed and not is_too_much else ()
