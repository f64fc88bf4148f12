"""Records of the metadata store that tell of incidents: auditor, its status, open ledgers.

``read_records`` reads them each time that the cluster is surveyed; ``changes_between`` says what
changed. Bounded: at most ``LEDGER_COUNT_MAX`` open ledgers are followed, the newest ones, and one
look reads at most ``NEW_COUNT_MAX`` ledgers that are new. Several ledgers that left the same bookie
are one change.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from zbk.errors import DamageError, NoSuchLedgerError, UnsupportedVersionError
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.election import read_auditor
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import AuditorStatus, AuditorVote
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import LedgerMetadata

LEDGER_COUNT_MAX: Final = 64
NEW_COUNT_MAX: Final = 64
NAMED_COUNT_MAX: Final = 4
"""Ledgers that the text of a change names; it counts the others."""


class Change(msgspec.Struct, frozen=True):
    """One change of the cluster's records."""

    lane: str  # a bookie id, "auditor" or "ledgers"
    kind: str
    text: str


class ClusterRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The records at one moment."""

    vote: AuditorVote | None
    status: AuditorStatus | None
    next_ledger_id: int
    ledgers: Mapping[int, LedgerMetadata]


def read_records(store: MetadataStore, before: ClusterRecords | None) -> ClusterRecords:
    """Return the records of now; the ledgers that ``before`` has are read again.

    Raises:
        MetadataUnavailableError: the store does not answer.
    """
    ledgers = LedgerStore(store)
    next_id = ledgers.next_ledger_id()
    known = before.ledgers if before is not None else {}
    first_new = max(before.next_ledger_id if before is not None else 0, next_id - NEW_COUNT_MAX)
    followed = [one.ledger_id for one in known.values() if not one.is_closed]
    found = {}
    for ledger_id in [*followed, *range(first_new, next_id)]:
        try:
            found[ledger_id] = ledgers.read(ledger_id)[0]
        except (NoSuchLedgerError, DamageError, UnsupportedVersionError):
            continue
    wanted = [one for one, ledger in found.items() if one in known or not ledger.is_closed]
    kept = sorted(wanted)[-LEDGER_COUNT_MAX:]
    vote, status = _auditor(store)
    return ClusterRecords(
        vote=vote,
        status=status,
        next_ledger_id=next_id,
        ledgers={one: found[one] for one in kept},
    )


def changes_between(before: ClusterRecords, after: ClusterRecords) -> Iterator[Change]:
    """Yield what changed, in a fixed order."""
    yield from _of_the_auditor(before, after)
    left: dict[str, list[tuple[int, str]]] = {}
    fenced, recovered = [], []
    for ledger_id in sorted(before.ledgers.keys() & after.ledgers.keys()):
        old, new = before.ledgers[ledger_id], after.ledgers[ledger_id]
        for gone, replacement in _replaced(old, new):
            left.setdefault(gone, []).append((ledger_id, replacement))
        was_open, is_fenced = old.state is LedgerState.OPEN, old.state is LedgerState.IN_RECOVERY
        if was_open and new.state is LedgerState.IN_RECOVERY:
            fenced.append(ledger_id)
        if is_fenced and new.is_closed:
            recovered.append(ledger_id)
    for bookie_id, moves in sorted(left.items()):
        names, others = _named([one for one, _ in moves]), sorted({other for _, other in moves})
        text = f"{names} replaced it by {', '.join(others[:NAMED_COUNT_MAX])}"
        yield Change(bookie_id, "ensemble change", text)
    if fenced:
        yield Change("ledgers", "fenced", f"a recovery of {_named(fenced)} began")
    if recovered:
        yield Change("ledgers", "recovered", f"a recovery closed {_named(recovered)}")


# ------------------------------------------------------------------ private


def _auditor(store: MetadataStore) -> tuple[AuditorVote | None, AuditorStatus | None]:
    """Return who audits, and its status; ``None`` for a record that cannot be read."""
    try:
        vote = read_auditor(store)
        status = AuditorNotes(store).status()
    except (DamageError, UnsupportedVersionError):
        return None, None
    if vote is None or status is None or status.candidate_id != vote.candidate_id:
        return vote, None
    return vote, status


def _of_the_auditor(before: ClusterRecords, after: ClusterRecords) -> Iterator[Change]:
    old, new = before.vote, after.vote
    if old is not None and new is None:
        yield Change("auditor", "no auditor", f"{old.candidate_id} audits no more")
    if new is not None and (old is None or old.token != new.token):
        yield Change("auditor", "election", f"{new.candidate_id} is the auditor now")
    was, told = before.status, after.status
    if told is None:
        return
    lost = set(was.lost) if was is not None else set()
    for bookie_id in sorted(set(told.lost) - lost):
        yield Change(bookie_id, "counts as lost", "the auditor reports its ledgers, or will")
    if told.brake and (was is None or was.brake != told.brake):
        yield Change("auditor", "auditor waits", told.brake)
    if told.done and (was is None or (was.done, was.done_ms) != (told.done, told.done_ms)):
        yield Change("auditor", "audited", told.done)


def _replaced(old: LedgerMetadata, new: LedgerMetadata) -> Iterator[tuple[str, str]]:
    """Yield the bookies that left the last fragment or a later one, and the new ones there."""
    last = old.last_fragment
    for fragment in new.fragments:
        if fragment.first_entry_id >= last.first_entry_id:
            pairs = zip(last.bookies, fragment.bookies, strict=True)
            yield from (one for one in pairs if one[0] != one[1])
            last = fragment


def _named(ledger_ids: list[int]) -> str:
    shown = ", ".join(map(str, ledger_ids[:NAMED_COUNT_MAX]))
    more = len(ledger_ids) - NAMED_COUNT_MAX
    noun = "ledger" if len(ledger_ids) == 1 else "ledgers"
    return f"{noun} {shown}" + (f" and {more:,} more" if more > 0 else "")
