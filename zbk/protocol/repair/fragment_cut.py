"""The cuts around lost entries that let the rest of a fragment be repaired."""

from collections.abc import Sequence
from typing import Final

from zbk.protocol.entry.spans import Span, covering
from zbk.protocol.ledger.metadata import LedgerMetadata

LOST_SPAN_COUNT_MAX: Final = 8
"""Losses that a fragment is cut around at once; those with the narrowest gaps count as one."""

FRAGMENT_COUNT_MAX: Final = 1_000
"""The limit on the fragments of a ledger that is cut: its metadata are one value."""


def cut_starts(metadata: LedgerMetadata, span: Span, lost: Sequence[Span]) -> tuple[int, ...]:
    """Return where to cut the fragment with the entries ``span`` around lost ones.

    There are no cuts if nothing is left between them, if the ledger would have too many fragments,
    or if it is open: its writer knows its fragments.
    """
    first, last = span
    spans = covering(tuple(lost), LOST_SPAN_COUNT_MAX)
    edges = (edge for begin, end in spans for edge in (begin, end + 1))
    starts = tuple(edge for edge in edges if first < edge <= last)
    is_too_much = len(metadata.fragments) + len(starts) > FRAGMENT_COUNT_MAX
    return starts if metadata.is_closed and not is_too_much else ()
