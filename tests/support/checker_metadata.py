"""Judges the versions of a ledger's metadata (I11 to I13, I22). See ``tests.support.checker``.

Written without a look at ``zbk.protocol.ledger.metadata.check_transition``: the two must agree.
"""

from collections.abc import Iterator
from itertools import pairwise

from tests.support.checker import LedgerCase, Violation
from tests.support.history import MetadataVersion
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata

_FIXED = (
    "ensemble_size",
    "write_quorum_size",
    "ack_quorum_size",
    "ledger_type",
    "digest_type",
    "password_digest",
    "creation_token",
    "created_ms",
    "ledger_key",
)

_NEXT = {
    LedgerState.OPEN: (LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED),
    LedgerState.IN_RECOVERY: (LedgerState.IN_RECOVERY, LedgerState.CLOSED),
    LedgerState.CLOSED: (LedgerState.CLOSED,),
}


def check_metadata(case: LedgerCase) -> Iterator[Violation]:
    """Yield what is wrong with the versions, one by one and from one to the next."""
    for version in case.versions:
        problem = _problem_of(version.metadata)
        if problem:
            yield case.violation("I13", f"version {version.version}: {problem}")
    for old, new in pairwise(case.versions):
        if case.history.metadata.is_complete and new.version != old.version + 1:
            yield case.violation("I12", f"version {new.version} follows version {old.version}")
        yield from _check_step(case, old, new)


def _problem_of(metadata: LedgerMetadata) -> str:
    starts = [f.first_entry_id for f in metadata.fragments]
    if not starts or starts[0] != 0 or starts != sorted(set(starts)):
        return f"fragments start at {starts}"
    for fragment in metadata.fragments:
        if len(set(fragment.bookies)) != metadata.ensemble_size:
            return f"not {metadata.ensemble_size} different bookies: {fragment.bookies}"
    return ""


def _check_step(
    case: LedgerCase, old: MetadataVersion, new: MetadataVersion
) -> Iterator[Violation]:
    before, after = old.metadata, new.metadata
    for field in _FIXED:
        if getattr(before, field) != getattr(after, field):
            yield case.violation("I12", f"{field} changed in version {new.version}")
    if after.state not in _NEXT[before.state]:
        yield case.violation("I12", f"{before.state} became {after.state}")
    end_before = (before.last_entry_id, before.length)
    if before.is_closed and end_before != (after.last_entry_id, after.length):
        yield case.violation("I11", f"the end moved from {end_before} to {after.last_entry_id}")
    yield from _check_fragments(case, before, new)


def _check_fragments(
    case: LedgerCase, before: LedgerMetadata, new: MetadataVersion
) -> Iterator[Violation]:
    after = new.metadata
    if before.is_closed and _ensembles(before) == _ensembles(after):
        return  # a fragment may have been cut in two: each entry is where it was
    starts = [f.first_entry_id for f in before.fragments]
    if [f.first_entry_id for f in after.fragments[: len(starts)]] != starts:
        yield case.violation("I13", f"fragments were moved or dropped in version {new.version}")
        return
    is_open = before.state is after.state is LedgerState.OPEN
    kept = list(zip(before.fragments, after.fragments, strict=False))
    changed = [(a, b) for a, b in kept if a != b]
    added = after.fragments[len(starts) :]
    if is_open and (added or (changed and changed[-1][1] is after.fragments[-1])):
        yield from _check_start(case, new, after.fragments[-1])
    is_recovered = before.state is LedgerState.IN_RECOVERY and after.is_closed
    if added and not is_open and not is_recovered:
        yield case.violation("I13", f"fragments were added from {before.state} to {after.state}")
    for a, b in changed:
        is_written_back = is_recovered and a is before.fragments[-1]
        if not is_open and not is_written_back and _replaced_count(a, b) > 1:
            yield case.violation("I11", f"more than one bookie replaced in fragment {a}")


def _ensembles(metadata: LedgerMetadata) -> list[Fragment]:
    """Return the fragments without those that go on with the bookies of the one before."""
    return [
        one
        for index, one in enumerate(metadata.fragments)
        if not index or one.bookies != metadata.fragments[index - 1].bookies
    ]


def _check_start(
    case: LedgerCase, version: MetadataVersion, fragment: Fragment
) -> Iterator[Violation]:
    """The writer's new fragment starts behind every entry acknowledged, or on VD ledgers reported.

    What is acknowledged on a VD ledger may still move to another bookie.
    """
    start = fragment.first_entry_id
    if not case.is_pd:
        for event in case.ends("read_lac", "sync", "open"):
            if event.index < version.index and event.result is not None and event.result >= start:
                text = f"a fragment starts at {start}, {event.call} of {event.process} said before"
                yield case.violation("I13", f"{text} {event.result}", start, event.result)
                return
        return
    acked = max(
        (a.entry_id for a in case.acks if a.index < version.index and a.entry_id is not None),
        default=NO_ENTRY,
    )
    if acked >= start:
        text = f"a fragment starts at {start}, entry {acked} was acknowledged before"
        yield case.violation("I13", text, start, acked)


def _replaced_count(a: Fragment, b: Fragment) -> int:
    return sum(x != y for x, y in zip(a.bookies, b.bookies, strict=True))
