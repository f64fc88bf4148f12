"""What a bookie holds of the entries that are due at its slot of a striped ledger."""

from array import array
from typing import Final

from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.entry_logs.location import ABSENT
from zbk.storage.index.index_handle import IndexHandle

SPAN_COUNT: Final = 4_096
"""Ids whose locations are looked at together."""


def due_until(index: IndexHandle, stripe: Stripe, from_id: int, end_id: int | None = None) -> int:
    """Return the last entry of the run of due entries after ``from_id`` that are held.

    ``from_id`` if the next due entry is absent. The pages that the run needs are read.
    ``end_id``: look no further.
    """
    last_entry_id, size = index.last_entry_id, stripe.ensemble_size
    if end_id is not None:
        last_entry_id = min(last_entry_id, end_id)
    step = SPAN_COUNT - SPAN_COUNT % size  # so that each residue begins at the same offset
    first = from_id + 1
    while first <= last_entry_id:
        last = min(first + step - 1, last_entry_id)
        absent_id = _first_absent(index.locations_of(range(first, last + 1)), first, stripe)
        if absent_id is not None:
            last_entry_id = absent_id - 1
            break
        first = last + 1
    place = stripe.place(last_entry_id + 1) - 1
    return max(from_id, stripe.entry_id(place)) if place >= 0 else from_id


def _first_absent(locations: "array[int]", first: int, stripe: Stripe) -> int | None:
    """Return the first due entry without a location, of those from ``first`` on."""
    size = stripe.ensemble_size
    absent = []
    for residue in stripe.residues():
        offset = (residue - first) % size
        row = locations[offset::size]
        if ABSENT in row:
            absent.append(first + offset + row.index(ABSENT) * size)
    return min(absent, default=None)
