"""What the bookies of a ledger's last fragment hold of it now, and how durable that is.

The bookies answer at once, without an fsync: what is not synced stays so. All are asked at once.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.client.cluster.ledger_calls import info_request
from zbk.client.cluster.requests import ReplyBox, Requests, answer_of
from zbk.errors import ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import stripes_of
from zbk.protocol.repair.holdings import HoldingsComparison
from zbk.system.clock import monotonic_s
from zbk.wire.messages import LedgerInfo

HOLDS_NOTHING: Final = "holds nothing of it"


class LedgerCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What one bookie holds. ``None``: not known, or not a property of the ledger."""

    bookie_id: str
    last_entry_id: int | None = None  # the highest that it holds
    last_add_synced: int | None = None  # of a VD ledger
    unsynced_count: int | None = None  # ids after that one, up to the highest, that are due there
    holes: tuple[tuple[int, int], ...] = ()  # spans of closed fragments that it lacks
    own_log: int | None = None  # id of the entry log that has this ledger only
    why: str = ""  # nothing is known


def ask_copies(requests: Requests, found: LedgerMetadata, timeout_s: float) -> list[LedgerCopy]:
    """Return the copies, by slot; a bookie that does not answer in time has the reason."""
    box = ReplyBox()
    bookies = found.last_fragment.bookies
    for bookie_id in bookies:
        request, frames = info_request(found.ledger_id, is_at_once=True)
        requests.send(bookie_id, request, frames, box, bookie_id)
    deadline_s = monotonic_s() + timeout_s
    answers: dict[object, LedgerInfo | ZbkError] = {}
    while len(answers) < len(bookies):
        reply = box.next(max(0.0, deadline_s - monotonic_s()))
        if reply is None:
            break
        answers[reply.key] = answer_of(reply, LedgerInfo)
    return [copy_of(found, bookie_id, answers.get(bookie_id)) for bookie_id in bookies]


def copy_of(
    found: LedgerMetadata, bookie_id: str, answer: LedgerInfo | ZbkError | None
) -> LedgerCopy:
    """Return what an answer says; ``None``: there was none."""
    if answer is None or isinstance(answer, ZbkError):
        why = "no answer in time" if answer is None else str(answer)
        return LedgerCopy(bookie_id=bookie_id, why=why)
    if not answer.is_known:
        return LedgerCopy(bookie_id=bookie_id, why=HOLDS_NOTHING)
    comparison = HoldingsComparison(found, bookie_id)
    if comparison.next_entry_id is not None:
        comparison.add(answer.ranges, answer.next_entry_id)
    is_vd = found.ledger_type.is_volatile
    slot = found.last_fragment.bookies.index(bookie_id)
    unsynced_count = max(0, _due_count(found, slot, answer.last_add_synced, answer.last_entry_id))
    return LedgerCopy(
        bookie_id=bookie_id,
        last_entry_id=answer.last_entry_id,
        last_add_synced=answer.last_add_synced if is_vd else None,
        unsynced_count=unsynced_count if is_vd else None,
        holes=() if answer.is_in_limbo else tuple(comparison.missing),
        own_log=answer.own_log,
    )


def left_out_count(found: LedgerMetadata, copies: Sequence[LedgerCopy]) -> int | None:
    """Return how many ids after the end of a closed ledger bookies still know of.

    Their entries were sent. On a VD ledger acknowledged ones may be among them: a loss of power
    took an entry before them. ``None``: a bookie did not answer, and no other one has any.
    """
    assert found.last_entry_id is not None, "it is closed"
    known = [one.last_entry_id for one in copies if one.last_entry_id is not None]
    count = max(0, max(known, default=found.last_entry_id) - found.last_entry_id)
    is_known = all(not one.why or one.why == HOLDS_NOTHING for one in copies)
    return count if count or is_known else None


def _due_count(found: LedgerMetadata, slot: int, first: int, last: int) -> int:
    """Return how many entries are due at a slot after one entry, up to another one."""
    stripe = stripes_of(found.quorum)[slot]
    return last - first if stripe is None else stripe.place(last + 1) - stripe.place(first + 1)
