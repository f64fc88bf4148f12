"""The copies of a ledger's last fragment at its bookies, and how durable they are.

The bookies answer at once, without an fsync: what is not synced stays so. All are asked at once. An
answer has the first ranges of the bookie's index. They are compared with the metadata: an entry
that is due and in no range is missing. Only fragments whose end is known can lack entries; in the
open one an entry may be on its way.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, cast

import msgspec

from zbk.client.cluster.ledger_calls import info_request
from zbk.client.cluster.requests import ReplyBox, Requests, answer_of
from zbk.durability.level import level_of
from zbk.errors import ZbkError
from zbk.protocol.entry.spans import Span, covering
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import Stripe
from zbk.protocol.repair.copy_order import due_count
from zbk.protocol.repair.holdings import HoldingsComparison
from zbk.protocol.repair.underreplicated import RANGES_COUNT_MAX
from zbk.protocol.write.lac_policy import cursor_stripes
from zbk.system.clock import monotonic_s
from zbk.wire.messages import LedgerInfo

Asked: TypeAlias = tuple[int, str]
"""A ledger id, and the bookie that is asked about the ledger."""

HOLDS_NOTHING: Final = "holds nothing of it"


class LedgerCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of one bookie. ``None``: not known, or not a property of the ledger."""

    bookie_id: str
    last_entry_id: int | None = None  # the highest that it holds
    last_add_synced: int | None = None  # of a VD ledger
    unsynced_count: int | None = None  # ids after that one, up to the highest, that are due there
    holes: tuple[tuple[int, int], ...] = ()  # spans of closed fragments that it lacks
    unknown_from: int | None = None  # holes from this id on are not known
    own_log: int | None = None  # id of the entry log that has this ledger only
    why: str = ""  # nothing is known


def ask_bookies(
    requests: Requests,
    asked: Sequence[Asked],
    timeout_s: float,
    *,
    first_entry_id: int = 0,
    stripes: Mapping[Asked, Stripe] = MappingProxyType({}),
) -> Mapping[Asked, LedgerInfo | ZbkError]:
    """Return the answers of bookies about ledgers, from an entry on; none of a silent one.

    ``stripes``: what the cursor of a bookie is to count, as ``stripes_in``.
    """
    box = ReplyBox()
    for one in asked:
        request, frames = info_request(
            one[0], first_entry_id, is_at_once=True, stripe=stripes.get(one)
        )
        requests.send(one[1], request, frames, box, one, needs_own_try=True)
    deadline_s = monotonic_s() + timeout_s
    answers: dict[Asked, LedgerInfo | ZbkError] = {}
    while len(answers) < len(asked):
        reply = box.next(max(0.0, deadline_s - monotonic_s()))
        if reply is None:
            break
        answers[cast("Asked", reply.key)] = answer_of(reply, LedgerInfo)
    return answers


def stripes_in(found: LedgerMetadata) -> dict[Asked, Stripe]:
    """Return what the cursor of each bookie of the last fragment counts, of a striped VD ledger.

    A bookie that has restarted knows its slot only when it is told.
    """
    stripes = cursor_stripes(found.quorum, level_of(found.ledger_type))
    named = zip(found.last_fragment.bookies, stripes, strict=True)
    return {(found.ledger_id, bookie_id): stripe for bookie_id, stripe in named if stripe}


def ask_copies(requests: Requests, found: LedgerMetadata, timeout_s: float) -> list[LedgerCopy]:
    """Return the copies, by slot; a bookie that does not answer in time has the reason."""
    asked = [(found.ledger_id, bookie_id) for bookie_id in found.last_fragment.bookies]
    answers = ask_bookies(requests, asked, timeout_s, stripes=stripes_in(found))
    return [copy_of(found, one[1], answers.get(one)) for one in asked]


def copy_of(
    found: LedgerMetadata, bookie_id: str, answer: LedgerInfo | ZbkError | None
) -> LedgerCopy:
    """Return the copy that an answer describes; ``None``: there was none."""
    if answer is None or isinstance(answer, ZbkError):
        why = "no answer in time" if answer is None else str(answer)
        return LedgerCopy(bookie_id=bookie_id, why=why)
    if not answer.is_known:
        return LedgerCopy(bookie_id=bookie_id, why=HOLDS_NOTHING)
    holes, unknown_from = missing_at(found, bookie_id, answer)
    is_vd = found.ledger_type.is_volatile
    return LedgerCopy(
        bookie_id=bookie_id,
        last_entry_id=answer.last_entry_id,
        last_add_synced=answer.last_add_synced if is_vd else None,
        unsynced_count=unsynced_count(found, bookie_id, answer) if is_vd else None,
        holes=tuple(holes),
        unknown_from=unknown_from,
        own_log=answer.own_log,
    )


def unsynced_count(found: LedgerMetadata, bookie_id: str, info: LedgerInfo) -> int:
    """Return how many entries that are due at a bookie it may have and has not synced."""
    named = [one.bookies for one in reversed(found.fragments) if bookie_id in one.bookies]
    slot = named[0].index(bookie_id) if named else 0
    return due_count(found.quorum, slot, info.last_add_synced + 1, info.last_entry_id)


def missing_at(
    found: LedgerMetadata,
    bookie_id: str,
    info: LedgerInfo | None,
    reported: Sequence[Span] = (),
) -> tuple[list[Span], int | None]:
    """Return the spans that a bookie lacks, and from which id on that is not known.

    ``info`` is its answer from entry 0 on, ``reported`` what the task of the ledger says. ``None``
    for the id: all of it is known. A bookie in limbo may hold what it does not name.
    """
    if info is None:
        return list(reported), 0
    comparison = HoldingsComparison(found, bookie_id)
    first, next_id = comparison.next_entry_id, info.next_entry_id
    if first is None:
        return list(reported), None
    if next_id is not None and next_id <= first:
        return list(reported), next_id
    comparison.add(info.ranges, next_id)
    missing = comparison.missing
    if missing and info.is_in_limbo:
        return list(reported), missing[0][0]
    both = covering([*missing, *reported], RANGES_COUNT_MAX)
    return list(both), comparison.next_entry_id


def left_out_count(found: LedgerMetadata, copies: Sequence[LedgerCopy]) -> int | None:
    """Return how many ids after the end of a closed ledger bookies still know of.

    Their entries were sent. On a VD ledger acknowledged ones may be among them: a loss of power
    took an entry before them. ``None``: a bookie did not answer, and no other one has any.

    Decision: bookies are not told the last acknowledged entry, so the number of acknowledged ones
    is not known. An add or a sync could carry that id, but only as of its sending: of the entries
    of the last window, which are those that a loss of power takes, it says nothing. And a bookie
    would have to keep it in each entry's header, which its digest covers, because the same loss of
    power takes what is only in memory. So it would cost a format, and give a lower bound.
    """
    assert found.last_entry_id is not None, "it is closed"
    known = [one.last_entry_id for one in copies if one.last_entry_id is not None]
    count = max(0, max(known, default=found.last_entry_id) - found.last_entry_id)
    is_known = all(not one.why or one.why == HOLDS_NOTHING for one in copies)
    return count if count or is_known else None
