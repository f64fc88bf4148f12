"""The fragments of a ledger, and how they may change.

Source: BookKeeper's ``LedgerMetadata``; "The BookKeeper protocol", Ensemble changes.
"""

from collections.abc import Sequence

import msgspec

from zbk.protocol.entry.words import LedgerState


class Fragment(msgspec.Struct, frozen=True):
    """A run of consecutive entries with one ensemble."""

    first_entry_id: int
    bookies: tuple[str, ...]  # bookie ids, by slot


def problem_of_change(
    old: Sequence[Fragment], new: Sequence[Fragment], states: tuple[LedgerState, LedgerState]
) -> str:
    """Return the problem with the change of fragments, or "". ``states``: before and after it.

    In the old fragments one bookie may be replaced, or the last ensemble as a whole: in an open
    ledger if none of the fragment's entries is confirmed, as its writer knows; at the end of a
    recovery if all its entries were written back. New fragments are appended: one in an open
    ledger, any number when a recovery closes the ledger, because it did not publish them before.
    """
    kept = new[: len(old)]
    if [f.first_entry_id for f in kept] != [f.first_entry_id for f in old]:
        return "the starts of fragments never change"
    added_count = len(new) - len(old)
    is_open = states == (LedgerState.OPEN, LedgerState.OPEN)
    is_recovered = states == (LedgerState.IN_RECOVERY, LedgerState.CLOSED)
    if added_count and not (is_recovered or (is_open and added_count == 1)):
        return f"{added_count} fragments are not added from {states[0]} to {states[1]}"
    changed = [(a, b) for a, b in zip(old, kept, strict=True) if a != b]
    if not changed:
        return ""
    if changed == [(old[-1], kept[-1])] and (is_recovered or (is_open and not added_count)):
        return ""
    replaced_count = sum(
        x != y for a, b in changed for x, y in zip(a.bookies, b.bookies, strict=True)
    )
    if replaced_count != 1 or added_count:
        return "one bookie of one fragment is replaced at a time"
    return ""


def are_cut(old: Sequence[Fragment], new: Sequence[Fragment], last_entry_id: int | None) -> bool:
    """Return whether the only change is that a closed ledger's fragment became several.

    They have the same bookies, and all start at or before the end, ``last_entry_id``.
    """
    added_count = len(new) - len(old)
    if last_entry_id is None or added_count < 1:
        return False
    for index, fragment in enumerate(old):
        stop = index + added_count + 1
        parts = new[index:stop]
        others = (*new[:index], *new[stop:])
        if others == (*old[:index], *old[index + 1 :]) and parts[0] == fragment:
            is_inside = parts[-1].first_entry_id <= last_entry_id
            return is_inside and all(part.bookies == fragment.bookies for part in parts)
    return False
