"""The copies of a ledger on its page: the state of each entry, LAC, LAS and LAP. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zbk.durability.synced_lac import SyncedLac
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.wire.messages import LedgerInfo

WINDOW_COUNT: Final = 48
"""Entries that the map of single entries shows."""


def window_at(found: LedgerMetadata, at: int, end_id: int) -> Span:
    """Return the span of entries to show from ``at`` on; the last ones if it lies beyond."""
    first = max(0, min(at, end_id - WINDOW_COUNT + 1))
    last = min(end_id, first + WINDOW_COUNT - 1)
    return first, last if found.last_entry_id is None else min(last, found.last_entry_id)


def copies_at(
    found: LedgerMetadata,
    bookie_id: str,
    info: LedgerInfo | None,
    window: Span,
    *,
    is_registered: bool,
) -> list[str]:
    """Return the state of a bookie's copy of each entry of a window; "": no copy is due.

    ``info`` is its answer from the first entry of the window on.
    """
    is_vd = found.ledger_type.is_volatile and not found.is_closed
    states = []
    for entry_id in range(window[0], window[1] + 1):
        fragment, end = found.fragment_of(entry_id)
        slot = fragment.bookies.index(bookie_id) if bookie_id in fragment.bookies else -1
        if slot < 0 or not found.quorum.holds(slot, entry_id):
            states.append("")
        elif not is_registered:
            states.append("on a lost bookie")
        elif info is None:
            states.append("unknown")
        else:
            states.append(_copy(info, entry_id, is_due=end is not None, is_vd=is_vd))
    return states


def marks_of(found: LedgerMetadata, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the LAC, the LAS and the LAP of an open ledger, as its last ensemble knows them.

    An entry is synced once an ack quorum has it on stable storage. Only VD ledgers have a LAS, and
    only if an ack quorum of each write set answered; a closed ledger has no marks.
    """
    last = found.last_fragment.bookies
    known = [one for one in rows if one["bookie_id"] in last and one["lac"] is not None]
    if found.is_closed or not known:
        return {}
    marks = {
        "LAC": max(one["lac"] for one in known),
        "LAP": max(one["last_entry_id"] for one in known),
    }
    synced = {
        last.index(one["bookie_id"]): one["last_add_synced"]
        for one in known
        if one["last_add_synced"] is not None
    }
    quorum = found.quorum
    if all(sum(slot in synced for slot in one) >= quorum.ack_size for one in quorum.write_sets):
        durable = SyncedLac(quorum, found.confirmed_floor)
        for slot, last_add_synced in synced.items():
            durable.update(slot, 0, last_add_synced)
        marks["LAS"] = durable.lac
    return marks


# ------------------------------------------------------------------ private


def _copy(info: LedgerInfo, entry_id: int, *, is_due: bool, is_vd: bool) -> str:
    if any(first <= entry_id <= last for first, last in info.ranges):
        return "not synced" if is_vd and entry_id > info.last_add_synced else "stored"
    if info.is_in_limbo or (info.next_entry_id is not None and entry_id >= info.next_entry_id):
        return "unknown"
    return "missing" if is_due else "not yet there"
